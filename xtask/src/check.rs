//! `cargo xtask check`: formats, rules, lints, pages and unit tests, cheapest first, in less than
//! three minutes. `cargo xtask test` adds the tests of whole programs.
//!
//! Every step runs, regardless of earlier failures. The table at the end lists the time and the
//! result of each step.

use std::path::Path;

use vermeil_bench::peers::find_program;

use crate::error::Result;
use crate::steps::{self, Steps, TestTally, run_command};
use crate::workspace::{Workspace, cargo};
use crate::{architecture, docs};

/// The arguments of `check`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckRunArgs {
    /// Only the step of this name, for example `architecture`
    #[arg(long, value_name = "STEP")]
    only: Option<String>,
}

/// Runs the command.
pub(crate) fn run(args: CheckRunArgs) -> Result<()> {
    let mut steps = Steps::only(args.only);
    run_steps(&mut steps, &Workspace::load()?.root);
    println!("\n{}", steps.table());
    steps.result()
}

/// Parallel tests of a program, for each cpu, because most tests wait for a server's process and
/// not for a cpu.
const TESTS_PER_CPU: usize = 3;

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
    steps.run_tests("unit tests", |tally| tests(root, &["--lib", "--bins"], tally));
}

/// Runs the workspace's tests of the kinds in `arguments`. A failed test fails the run: no test
/// gets a second try, because an unsteady test hides faults.
pub(crate) fn tests(root: &Path, arguments: &[&str], tally: &mut TestTally) -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) * TESTS_PER_CPU;
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-fail-fast"]).args(arguments).current_dir(root);
    command.env("RUST_TEST_THREADS", threads.to_string());
    steps::run_tests(&mut command, tally, &mut std::io::stdout())
}

/// Compares the licences, the sources and the known advisories of all dependencies with deny.toml,
/// if cargo-deny is installed.
fn licences(root: &Path) -> Result<()> {
    let is_installed = find_program("cargo-deny").is_some();
    if !is_installed {
        println!("skipped: cargo-deny is not installed (`cargo install cargo-deny --locked`)");
        return Ok(());
    }
    let deny = |arguments: &[&str]| {
        let mut command = cargo();
        command.arg("deny").args(arguments).current_dir(root);
        command
    };
    // A build fetches only the crates of its own target, and the rules hold for several targets.
    // Without network the fetch fails, and the comparison then names a crate that is missing.
    let _ = cargo().args(["fetch", "--locked", "--quiet"]).current_dir(root).status();
    run_command(&mut deny(&["--offline", "check", "bans", "licenses", "sources"]))?;
    // Only the fetches need the network, and a machine without network must pass the check.
    let is_fetched = deny(&["fetch", "db"]).output().is_ok_and(|output| output.status.success());
    if !is_fetched {
        println!("skipped: advisories, because the advisory database could not be fetched");
        return Ok(());
    }
    run_command(&mut deny(&["--offline", "check", "advisories"]))
}
