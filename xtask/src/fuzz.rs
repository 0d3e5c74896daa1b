//! `cargo xtask fuzz [TARGET]`: coverage-guided fuzzing of the parsers.
//!
//! The targets are in `fuzz/targets`, with initial inputs in `fuzz/seeds`. Interesting inputs are
//! kept below the target folder, so that the next run continues from there. The compiler's coverage
//! counters are stable options for the whole build, so only a C++ compiler is needed beside Rust. A
//! failing input is written to `fuzz/failures`, with the command that runs the input again. Not
//! part of `cargo xtask test`, whose tests mutate the same inputs without a search.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread::{self, available_parallelism};

use crate::error::{Error, Result};
use crate::steps::{failure, run_command};
use crate::workspace::{Workspace, cargo};

/// Makes the compiler count executed branches and record comparisons: the options of LLVM's
/// SanitizerCoverage that libFuzzer reads.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";
/// Longest input. Heads of requests end at 16 KB; shorter inputs search faster.
const INPUT_BYTES_MAX: u32 = 4096;
/// Memory limit of a search: several times the usual need.
const MEMORY_MB_MAX: u32 = 1024;

/// The arguments of `fuzz`.
#[derive(Debug, clap::Args)]
pub(crate) struct FuzzArgs {
    /// Only this target: the name of a file in fuzz/targets, with - for _.
    target: Option<String>,
    /// Seconds of the search in each target.
    #[arg(long, value_name = "S", default_value_t = 20)]
    seconds: u32,
    /// Targets that are searched at the same time. Default: one for each cpu.
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

/// Runs the command.
pub(crate) fn run(args: &FuzzArgs) -> Result<()> {
    let workspace = Workspace::load()?;
    let folder = workspace.root.join("fuzz");
    let all = targets(&folder.join("targets"))?;
    let chosen: Vec<String> = match &args.target {
        None => all,
        Some(name) if all.contains(name) => vec![name.clone()],
        Some(name) => return Err(Error::form(name, format!("not a target; there are {}", all.join(", ")))),
    };
    let binaries = build(&workspace, &folder)?;
    let jobs = args.jobs.or_else(|| available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let waiting = Mutex::new(chosen.iter());
    let search_some = || -> Result<()> {
        loop {
            let Some(target) = waiting.lock().expect("no search panics").next() else { return Ok(()) };
            search(&binaries.join(target), target, &folder, &workspace, args.seconds)?;
        }
    };
    thread::scope(|scope| {
        let searches: Vec<_> = (0..jobs.min(chosen.len())).map(|_| scope.spawn(search_some)).collect();
        searches.into_iter().try_for_each(|search| search.join().expect("no search panics"))
    })?;
    println!("\n{} targets, {} s each: nothing found", chosen.len(), args.seconds);
    Ok(())
}

/// Checks that the targets compile, because they are a workspace of their own and use crates whose
/// names may have changed. Without a C++ compiler, for libFuzzer, prints so instead.
pub(crate) fn check() -> Result<()> {
    let has_compiler =
        Command::new("c++").arg("--version").output().is_ok_and(|output| output.status.success());
    if !has_compiler {
        println!("skipped: libFuzzer needs a C++ compiler (package g++)");
        return Ok(());
    }
    let workspace = Workspace::load()?;
    let mut command = cargo();
    command.args(["clippy", "--bins", "--", "-D", "warnings"]).current_dir(workspace.root.join("fuzz"));
    command.env("CARGO_TARGET_DIR", &workspace.target);
    run_command(&mut command)
}

/// The names of the targets.
fn targets(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).map_err(Error::path("read", folder))?;
    let stem = |path: PathBuf| Some(path.file_stem()?.to_str()?.replace('_', "-"));
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| stem(entry.path())).collect();
    names.sort();
    Ok(names)
}

/// Builds all targets; returns the folder of the binaries.
fn build(workspace: &Workspace, folder: &Path) -> Result<PathBuf> {
    // Named explicitly, so that build scripts and macros have no counters.
    let machine = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = workspace.target.join("fuzz");
    let mut command = cargo();
    command.args(["build", "--release", "--bins", "--target", &machine]).current_dir(folder);
    command.env("CARGO_TARGET_DIR", &output).env("RUSTFLAGS", COVERAGE);
    run_command(&mut command)?;
    Ok(output.join(machine).join("release"))
}

/// Searches in a target, and prints the output at the end, because other searches print too.
fn search(binary: &Path, target: &str, folder: &Path, workspace: &Workspace, seconds: u32) -> Result<()> {
    let (kept, failures) = (workspace.target.join("fuzz/corpus").join(target), folder.join("failures"));
    for folder in [&kept, &failures] {
        fs::create_dir_all(folder).map_err(Error::path("make", folder))?;
    }
    let mut command = Command::new(binary);
    command.arg(&kept).arg(folder.join("seeds").join(target));
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-max_len={INPUT_BYTES_MAX}"));
    command.arg(format!("-rss_limit_mb={MEMORY_MB_MAX}")).args(["-timeout=10", "-print_final_stats=1"]);
    command.arg(format!("-artifact_prefix={}/{target}-", failures.display()));
    let output = command.output().map_err(Error::path("run", binary))?;
    println!("\n── {target}\n{}", String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(()) } else { Err(failure(&command, output.status)) }
}
