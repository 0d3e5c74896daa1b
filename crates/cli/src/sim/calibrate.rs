//! `vermeil sim calibrate`: measures this machine and writes a machine file for simulations.

use super::given::{self, SimUsage};
use crate::writable::check_writable;
use crate::{Exit, print};
use clap::{Args, ValueHint};
use std::path::PathBuf;
use vermeil_calibrate::MeasureEffort;
use vermeil_config::Surroundings;

/// Measure this machine: caches, memory, lines between cores, wake-ups, locks, system calls, the
/// runtime's events.
///
/// Takes some seconds, and the machine should be idle. The file is a machine for `vermeil sim run
/// --machine FILE.toml`. `--machine here` measures at once and saves nothing.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(super::EXAMPLES))]
pub(super) struct CalibrateArgs {
    /// The file for the description
    ///
    /// Default: standard output.
    #[arg(long, short, value_name = "FILE.toml", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,

    /// A short trial run; the numbers mean little
    ///
    /// Default: some seconds.
    #[arg(long)]
    quick: bool,
}

impl CalibrateArgs {
    /// Measures.
    pub(super) fn run(self) -> Exit {
        if let Some(Err(why)) = self.out.as_deref().map(check_writable) {
            return print::failure(&why, Exit::CannotStart);
        }
        let text = match here(if self.quick { MeasureEffort::Smoke } else { MeasureEffort::Full }) {
            Ok(text) => text,
            Err(error) => return print::failure(&error, error.exit()),
        };
        match &self.out {
            None => print::result(&text),
            Some(path) => match given::write("--out", path, &text) {
                Ok(()) => Exit::Clean,
                Err(error) => print::failure(&error, error.exit()),
            },
        }
    }
}

/// This machine's description.
pub(super) fn here(effort: MeasureEffort) -> Result<String, SimUsage> {
    let Surroundings { machine, allowed, .. } = Surroundings::here()?;
    let cpus: Vec<_> = allowed.cpus.iter().collect();
    Ok(vermeil_calibrate::calibrate(&machine, &cpus, effort)?.to_toml(&machine))
}
