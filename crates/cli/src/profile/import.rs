//! `vermeil profile import`: a file of `perf record` as a recording.

use crate::{Exit, print};
use clap::{Args, ValueHint};
use std::path::PathBuf;
use vermeil_profile::{default_output, import};

/// Turn a file of `perf record` into a recording, so that machines without vermeil can be looked
/// at.
///
/// Record there with `perf record -g -F 997 -p PID`. Functions get their names here, from files
/// with the same build-id; the kernel's from --kallsyms.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(super::EXAMPLES))]
pub(super) struct ImportArgs {
    /// The file of `perf record`
    #[arg(value_name = "PERF.DATA", value_hint = ValueHint::FilePath)]
    from: PathBuf,

    /// The file of the recording
    ///
    /// Default: the same name with the ending .prof.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,

    /// A copy of /proc/kallsyms of the recorded machine
    ///
    /// Default: this machine's, if the file was recorded here since it was started.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    kallsyms: Option<PathBuf>,
}

impl ImportArgs {
    /// Imports.
    pub(super) fn run(self) -> Exit {
        let output = self.output.unwrap_or_else(|| default_output(&self.from));
        match import(&self.from, &output, self.kallsyms.as_deref()) {
            Ok(imported) => {
                let cut =
                    if imported.unread > 0 { "; the file is cut off or damaged behind them" } else { "" };
                print::result(&format!(
                    "{}: {} samples, {} of other events or idle cpus left out, {} lost{cut}\n",
                    output.display(),
                    imported.samples,
                    imported.others,
                    imported.lost
                ))
            }
            Err(error) => print::failure(&error, Exit::CannotStart),
        }
    }
}
