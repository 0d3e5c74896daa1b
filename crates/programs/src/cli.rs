//! The common part of the examples' command lines: the runtime, the end of a run, and the display
//! of errors.
//!
//! Leaves out the report on a run: `cli/report.rs`. Tested through the examples, in the runtime's
//! `tests/docs.rs`.

mod report;

use crate::{
    ProgramOutcome,
    record::{EVENTS_PER_CORE, RecordingFile},
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

/// The runtime of a program, and the records of the run.
#[derive(Clone, Debug, clap::Args)]
pub struct RuntimeArgs {
    /// How colors find their cores: none, libasync, mely, placed:PLAN, trial, ncopy, per-node or
    /// adaptive.
    #[arg(long, default_value_t)]
    pub policy: Policy,
    /// Which cpus to run on: all, a number, or a list such as 0-3,^1.
    #[arg(long, value_name = "all|N|LIST", default_value_t = CoreSelection::All)]
    pub cores: CoreSelection,
    /// How many runs are timed: off, sampled or all.
    #[arg(long, value_name = "off|sampled|all", default_value_t)]
    pub observe: Observe,
    /// Write a recording of the run to this file, a *.ndjson that `vermeil sim run` runs again.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}

impl RuntimeArgs {
    /// Starts the runtime.
    ///
    /// # Errors
    /// When this machine does not have those cores, a core cannot start, or the recording cannot be
    /// written.
    pub fn start(&self) -> Result<CliRuntime, CliFailure> {
        let root = Path::new("/");
        let affinity: CpuSet =
            vermeil_io::current_affinity().into_iter().map(|cpu| CpuId(cpu as u32)).collect();
        let cpus = self.cores.resolve(&sysfs::read(root)?, &allowed(root, &affinity))?;
        let cpus = cpus.into_iter().map(|cpu| cpu.0 as usize);
        let builder = Runtime::builder().cpus(cpus).policy(self.policy.clone()).observe(self.observe);
        let record = self.record.as_deref().map(RecordingFile::create).transpose()?;
        let runtime = builder.record(if record.is_some() { EVENTS_PER_CORE } else { 0 }).build()?;
        Ok(CliRuntime { runtime, record })
    }
}

/// Reads a number above zero.
///
/// # Errors
/// The text is no such number.
pub fn above_zero(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if number > 0.0 && f64::is_finite(number) => Ok(number),
        _ => Err("write a number above 0".to_owned()),
    }
}

/// The runtime of a command line, and the destination of the recording.
pub struct CliRuntime {
    runtime: Runtime,
    record: Option<RecordingFile>,
}

impl CliRuntime {
    /// The runtime's handle.
    pub fn handle(&self) -> Handle {
        self.runtime.handle()
    }

    /// Ends a run: prints the report, ends the runtime and writes the recording. The report comes
    /// first, because an ended runtime no longer knows the placement of handlers.
    ///
    /// # Errors
    /// When the recording cannot be written.
    pub fn end(self, outcome: &ProgramOutcome) -> Result<(), CliFailure> {
        print!("{}", report(&self.handle(), outcome));
        if let Some(record) = self.record {
            println!("\n{}", record.write(self.runtime)?);
        }
        Ok(())
    }
}

/// The error message of a failed program. `main` shows a returned error in `Debug` form, so this
/// type's `Debug` form is the message.
pub struct CliFailure(Box<dyn Error>);

impl<E: Error + 'static> From<E> for CliFailure {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl fmt::Debug for CliFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Prints the address, and serves until a signal ends the process.
pub fn serve_for_ever(addr: SocketAddr) -> ! {
    println!("listening on {addr}");
    loop {
        std::thread::park();
    }
}
