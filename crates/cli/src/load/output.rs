//! What becomes of the results: a summary on standard output, and files.

use crate::{Exit, print};
use clap::{Args, ValueHint};
use std::path::PathBuf;
use vermeil_load::report::{self, Record};

/// Where results go.
#[derive(Debug, Args)]
pub(super) struct OutputArgs {
    /// Write the whole result as JSON; - is standard output, without the summary
    ///
    /// Default: not written.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    json: Option<PathBuf>,

    /// No live line
    ///
    /// Default: a line on standard error while the run lasts, if that is a terminal.
    #[arg(long, short)]
    pub(super) quiet: bool,
}

/// Writes `record` to where it was asked for; a run that cannot be trusted has an exit code of its own.
pub(super) fn write(output: &OutputArgs, record: &Record) -> Exit {
    let mut exit = Exit::Clean;
    let mut to_stdout = false;
    for (path, text) in output.json.iter().map(|path| (path, record.to_json())) {
        if path.as_os_str() == "-" {
            to_stdout = true;
            exit = worse(exit, print::result(&text));
        } else if let Err(error) = std::fs::write(path, text) {
            let why = format_args!("cannot write {}: {error}", path.display());
            exit = worse(exit, print::failure(&why, Exit::Failed));
        }
    }
    if !to_stdout {
        exit = worse(exit, print::result(&report::summary(record)));
    }
    if record.valid { exit } else { worse(exit, Exit::Doubtful) }
}

fn worse(one: Exit, other: Exit) -> Exit {
    if one == Exit::Clean { other } else { one }
}
