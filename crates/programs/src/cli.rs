//! What the examples' command lines have in common: which runtime, what is left of a run, and how a failure is told.
//!
//! Leaves out what is said of a run: `cli/report.rs`. Tested through the examples, in the runtime's `tests/docs.rs`.

mod report;

use crate::{
    Outcome,
    record::{EVENTS_PER_CORE, Record},
};
use std::{
    error::Error,
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
};
use vermeil::{Handle, Observe, Policy, Runtime};
use vermeil_topology::{CoreSelection, CpuId, CpuSet, allowed, sysfs};

pub use report::{cores, handlers, placements, report};

/// The runtime a program runs on, and what is noted of the run.
#[derive(Clone, Debug, clap::Args)]
pub struct RuntimeArgs {
    /// How colors find their cores: none, libasync, mely, placed:PLAN, trial, ncopy or adaptive.
    #[arg(long, default_value_t)]
    pub policy: Policy,
    /// Which cpus to run on: all, a number, or a list such as 0-3,^1.
    #[arg(long, value_name = "all|N|LIST", default_value_t = CoreSelection::All)]
    pub cores: CoreSelection,
    /// How much of what runs is timed: off, sampled or all.
    #[arg(long, value_name = "off|sampled|all", default_value_t)]
    pub observe: Observe,
    /// Leave a recording of the run in this file, a *.ndjson that `vermeil sim run` runs again.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}

impl RuntimeArgs {
    /// Starts it.
    ///
    /// # Errors
    /// When this machine does not have those cores, a core cannot start, or the recording cannot be written.
    pub fn start(&self) -> Result<Running, Failure> {
        let root = Path::new("/");
        let affinity: CpuSet =
            vermeil_io::current_affinity().into_iter().map(|cpu| CpuId(cpu as u32)).collect();
        let cpus = self.cores.resolve(&sysfs::read(root)?, &allowed(root, &affinity))?;
        let cpus = cpus.into_iter().map(|cpu| cpu.0 as usize);
        let builder = Runtime::builder().cpus(cpus).policy(self.policy.clone()).observe(self.observe);
        let record = self.record.as_deref().map(Record::create).transpose()?;
        let runtime = builder.record(if record.is_some() { EVENTS_PER_CORE } else { 0 }).build()?;
        Ok(Running { runtime, record })
    }
}

/// The runtime of a command line, and where its recording goes.
pub struct Running {
    runtime: Runtime,
    record: Option<Record>,
}

impl Running {
    /// The runtime's handle.
    pub fn handle(&self) -> Handle {
        self.runtime.handle()
    }

    /// The end of a run: says what it came to, then ends the runtime, which knows no longer then where handlers stand, and leaves its
    /// recording.
    ///
    /// # Errors
    /// When the recording cannot be written.
    pub fn end(self, outcome: &Outcome) -> Result<(), Failure> {
        print!("{}", report(&self.handle(), outcome));
        if let Some(record) = self.record {
            println!("\n{}", record.write(self.runtime)?);
        }
        Ok(())
    }
}

/// Why a program failed, in words. What `main` returns is shown as for programmers; this shows the message there.
pub struct Failure(Box<dyn Error>);

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Says where a program serves, and lets it serve until a signal ends the process.
pub fn serve_for_ever(addr: SocketAddr) -> ! {
    println!("listening on {addr}");
    loop {
        std::thread::park();
    }
}
