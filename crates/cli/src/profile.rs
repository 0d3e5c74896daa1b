//! `vermeil profile`: where a process spends its time. One file for each subcommand.
//!
//! Leaves out recording and reports, which are the profile crate's. Tested through the binary
//! (`tests/profile.rs`).

mod compare;
mod import;
mod record;
mod report;
mod server;

use crate::{Exit, print};
use clap::{Args, Subcommand};
use std::path::Path;

/// For the help and the man page.
pub(crate) const EXAMPLES: &[&str] = &[
    "vermeil profile record -o web.prof --duration 10s --pid 4711",
    "vermeil profile record -- vermeil serve /srv/www",
    "vermeil profile record --control /run/vermeil/web.sock --duration 10s",
    "vermeil profile record --waits --pid 4711 --duration 10s",
    "vermeil profile report web.prof",
    "vermeil profile report web.prof --callers-of copy_to_iter",
    "vermeil profile report web.prof --outermost Core::io,vermeil_server::",
    "vermeil profile report web.prof --waits --form html -o waits.html",
    "vermeil profile report web.prof --form html -o web.html",
    "vermeil profile report web.prof --form csv --window 10s..25s",
    "vermeil profile compare vermeil-scale/cpus-1 vermeil-scale/cpus-2 --form html -o excess.html",
    "vermeil profile import perf.data -o other.prof",
];

/// Find out where a process spends its time: sample stacks, read counters, report the functions
/// that cost most.
///
/// The subject is any process with its descendants; the kernel's work on their behalf is included.
/// Works on virtual machines without hardware counters, where a sample stands for time instead of
/// cycles. docs/profile.md explains how to find out why a server is slow.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(EXAMPLES), arg_required_else_help = true)]
pub(crate) struct ProfileArgs {
    #[command(subcommand)]
    what: ProfileCommand,
}

#[derive(Debug, Subcommand)]
enum ProfileCommand {
    Record(record::RecordArgs),
    Report(report::ProfileReportArgs),
    Compare(compare::CompareArgs),
    Import(import::ImportArgs),
}

impl ProfileArgs {
    /// Runs the subcommand.
    pub(crate) fn run(self) -> Exit {
        match self.what {
            ProfileCommand::Record(args) => args.run(),
            ProfileCommand::Report(args) => args.run(),
            ProfileCommand::Compare(args) => args.run(),
            ProfileCommand::Import(args) => args.run(),
        }
    }
}

/// Writes a result to a file, or to standard output for `-` and by default.
fn write(output: Option<&Path>, bytes: Vec<u8>) -> Exit {
    match output {
        Some(path) if path.as_os_str() != "-" => match vermeil_io::output::write(path, bytes) {
            Ok(()) => Exit::Clean,
            Err(error) => {
                print::failure(&format_args!("cannot write {}: {error}", path.display()), Exit::Failed)
            }
        },
        _ => print::bytes(&bytes),
    }
}

/// A result for programs.
pub(crate) fn as_json(result: &impl serde::Serialize) -> String {
    let mut text = serde_json::to_string_pretty(result).expect("results have text keys only");
    text.push('\n');
    text
}
