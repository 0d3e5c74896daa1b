//! `cargo xtask check`: everything that a change can break, cheapest first.
//!
//! Every step runs, regardless of earlier failures. The table at the end lists the time and the
//! result of each step.

use std::io;
use std::path::Path;

use vermeil_bench::peers::find_program;

use crate::error::Result;
use crate::steps::{Steps, run_command};
use crate::workspace::{Workspace, cargo};
use crate::{again, architecture, docs};

/// The arguments of `check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only the step of this name, for example `architecture`
    #[arg(long, value_name = "STEP")]
    only: Option<String>,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Result<()> {
    let mut steps = Steps::only(args.only);
    run_steps(&mut steps, &Workspace::load()?.root);
    println!("\n{}", steps.table());
    steps.result()
}

/// Parallel tests of a program, for each cpu, because most tests wait for a server's process and
/// not for a cpu.
const TESTS_PER_CPU: usize = 2;

/// The steps, in the repository at `root`.
pub(crate) fn run_steps(steps: &mut Steps, root: &Path) {
    let in_root = |arguments: &[&str]| {
        let mut command = cargo();
        command.args(arguments).current_dir(root);
        command
    };
    steps.run("format", || run_command(&mut in_root(&["fmt", "--all", "--", "--check"])));
    steps.run("architecture", architecture::run);
    steps.run("clippy", || {
        run_command(&mut in_root(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    });
    steps.run("licences", || licences(root));
    steps.run("generated docs", docs::check);
    steps.run("rustdoc", || {
        let mut command = in_root(&["doc", "--workspace", "--no-deps"]);
        run_command(command.env("RUSTDOCFLAGS", "-D warnings"))
    });
    steps.run_tests("tests", |tally| {
        let threads =
            (std::thread::available_parallelism().map_or(1, usize::from) * TESTS_PER_CPU).to_string();
        let test = |arguments: &[&str]| {
            let mut command = in_root(&[&["test"], arguments].concat());
            command.env("RUST_TEST_THREADS", &threads);
            command
        };
        again::run_tests(test, &["--workspace", "--no-fail-fast"], tally, &mut io::stdout())
    });
}

/// Compares the licences and sources of all dependencies with deny.toml, if cargo-deny is
/// installed.
fn licences(root: &Path) -> Result<()> {
    let is_installed = find_program("cargo-deny").is_some();
    if !is_installed {
        println!("skipped: cargo-deny is not installed (`cargo install cargo-deny --locked`)");
        return Ok(());
    }
    let mut command = cargo();
    command.args(["deny", "--offline", "check", "bans", "licenses", "sources"]).current_dir(root);
    run_command(&mut command)
}
