//! The project's scripts, run with `cargo xtask COMMAND`: one file per command.
//!
//! `check` checks everything that a change can break and prints the time of each step. `test` is
//! the run of continuous integration: it installs the tests' requirements, then runs all of
//! `check`, the model checks and the smoke size of every bench. `bench` measures, `docs` writes
//! generated files. Nothing here ships.

mod apps;
mod architecture;
mod bench;
mod bpf;
mod browser;
mod check;
mod conformance;
mod docs;
mod error;
mod features;
mod fuzz;
mod guesses;
mod invariants;
mod leftovers;
mod measured;
mod modules;
mod named_paths;
mod numa;
mod packages;
mod pgo;
mod pictures;
mod prose;
mod protocols;
mod shapes;
mod source;
mod steps;
mod test;
mod tsan;
mod type_names;
mod unused;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::{Error, Result};

/// The project's own scripts.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct XtaskArgs {
    #[command(subcommand)]
    command: XtaskCommand,
}

#[derive(Debug, Subcommand)]
enum XtaskCommand {
    /// Format, lints, architecture, documentation and tests; runs all of them, then lists the
    /// failures.
    Check(check::CheckRunArgs),
    /// Everything that continuous integration runs, after installing its requirements.
    Test(test::TestArgs),
    /// Real clients and applications, outside of the usual run.
    Conformance(conformance::ConformanceArgs),
    /// The runtime's tests under the thread sanitizer.
    Tsan,
    /// Coverage-guided fuzzing of the parsers.
    Fuzz(fuzz::FuzzArgs),
    /// Measure against real servers and floors.
    Bench(bench::BenchArgs),
    /// Build the release with profile-guided optimization: build, load, and build again.
    Pgo,
    /// Draw a page of a report for docs/img, on a wide window and on a phone.
    Pictures(pictures::PicturesArgs),
    /// Write the kernel programs' instructions from their C sources.
    Bpf(bpf::BpfArgs),
    /// Write the man pages and shell completions into docs/.
    Docs(docs::DocsArgs),
}

fn main() -> ExitCode {
    let result: Result<()> = match XtaskArgs::parse().command {
        XtaskCommand::Check(args) => check::run(args),
        XtaskCommand::Test(args) => test::run(args),
        XtaskCommand::Conformance(args) => conformance::run(&args),
        XtaskCommand::Tsan => tsan::run(),
        XtaskCommand::Fuzz(args) => fuzz::run(&args),
        XtaskCommand::Bench(args) => bench::run(&args),
        XtaskCommand::Pgo => pgo::run(),
        XtaskCommand::Pictures(args) => pictures::run(&args),
        XtaskCommand::Bpf(args) => bpf::run(&args),
        XtaskCommand::Docs(args) => docs::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::Reported) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
