//! What the examples' command lines have in common: which runtime, and what is said at the end.

use crate::Outcome;
use std::{error::Error, net::SocketAddr, path::Path};
use vermeil::{Handle, Policy, Runtime};
use vermeil_topology::{CoreSelection, CpuId, CpuSet, allowed, sysfs};

/// The runtime a program runs on.
#[derive(Clone, Debug, clap::Args)]
pub struct RuntimeArgs {
    /// How colors find their cores: none, libasync, mely, placed:PLAN, trial, ncopy or adaptive.
    #[arg(long, default_value_t)]
    pub policy: Policy,
    /// Which cpus to run on: all, a number, or a list such as 0-3,^1.
    #[arg(long, value_name = "all|N|LIST", default_value_t = CoreSelection::All)]
    pub cores: CoreSelection,
}

impl RuntimeArgs {
    /// Starts it.
    ///
    /// # Errors
    /// When this machine does not have those cores, or a core cannot start.
    pub fn start(&self) -> Result<Runtime, Box<dyn Error>> {
        let root = Path::new("/");
        let affinity: CpuSet =
            vermeil_io::current_affinity().into_iter().map(|cpu| CpuId(cpu as u32)).collect();
        let cpus = self.cores.resolve(&sysfs::read(root)?, &allowed(root, &affinity))?;
        let cpus = cpus.into_iter().map(|cpu| cpu.0 as usize);
        Ok(Runtime::builder().cpus(cpus).policy(self.policy.clone()).build()?)
    }
}

/// Says where a program serves, and lets it serve until a signal ends the process.
pub fn serve_for_ever(addr: SocketAddr) -> ! {
    println!("listening on {addr}");
    loop {
        std::thread::park();
    }
}

/// The end of a run, for people: what it came to and what each core did.
pub fn report(handle: &Handle, outcome: &Outcome) -> String {
    let mut text = format!(
        "{} events in {:.3} s: {:.0} a second\nchecksum {:016x}\n\n",
        outcome.events,
        outcome.elapsed.as_secs_f64(),
        outcome.throughput(),
        outcome.checksum
    );
    text += &cores(handle);
    text += &placements(handle);
    text
}

/// What each core has done since the start; see docs/runtime.md.
pub fn cores(handle: &Handle) -> String {
    let head = ["core", "cpu", "events", "activations", "panics", "parks", "completions", "steals", "woken"];
    let mut text = head.map(|name| format!("{name:>12}")).concat();
    for (index, core) in handle.snapshot().cores.into_iter().enumerate() {
        let done = [core.events, core.activations, core.panics, core.parks, core.completions];
        let counts = done.into_iter().chain([core.steals, core.thieves_woken]);
        text += &format!("\n{index:>12}{:>12}", core.cpu);
        text.extend(counts.map(|count| format!("{count:>12}")));
    }
    text + "\n"
}

/// What the policy decided about handlers, and what its trials have lost; nothing where it decides nothing.
pub fn placements(handle: &Handle) -> String {
    let placements = handle.placements();
    let mut text = String::new();
    if !placements.decisions.is_empty() {
        let stand = placements.handlers.iter().map(|(name, core)| format!("{name} on {}", core.0));
        text += &format!("\nhandlers: {}\n", stand.collect::<Vec<_>>().join(", "));
        text += &format!("decisions:\n  {}\n", placements.decisions.join("\n  "));
    }
    if let Some(unknown) = placements.unknown {
        text += &format!("\n{unknown}\n");
    }
    if let Some(witness) = placements.witness {
        text += &format!("{witness}\n");
    }
    if let Some(regret) = placements.regret {
        text += &format!("regret: {:.1} ms of the machine\n", regret.as_secs_f64() * 1e3);
    }
    text
}
