//! One run of `cargo xtask bench runtime`, in a separate process; prints one line of JSON.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use vermeil::Observe;
use vermeil_bench::runtime::child::{ChildCpus, ChildRun, RunWatch};
use vermeil_bench::runtime::plan::{BenchProgram, RuntimeVariant};
use vermeil_bench::size::BenchSize;
use vermeil_programs::kernel::MixingPace;

/// The allocator of the binary `vermeil`, for the peers too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
struct RunsArgs {
    /// The program.
    #[arg(value_parser = |name: &str| BenchProgram::from_name(name).ok_or("there is no such program"))]
    program: BenchProgram,
    /// The policy or peer to run on.
    #[arg(value_parser = |name: &str| RuntimeVariant::from_name(name).ok_or("there is no such policy or peer"))]
    variant: RuntimeVariant,
    /// The size of the run.
    #[arg(long, value_enum, default_value = "full")]
    size: BenchSize,
    /// The observation during the run.
    #[arg(long, value_enum, default_value = "end")]
    watch: RunWatch,
    /// The level of observation: off, sampled or all.
    #[arg(long, default_value_t)]
    observe: Observe,
    /// The cpus for the run.
    #[arg(long, value_enum, default_value = "all")]
    cpus: ChildCpus,
    /// Leave a recording of the run in this file ("Recordings" in docs/runtime.md).
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The speed of this machine's mixing; measured if left out.
    #[arg(long)]
    rounds_per_us: Option<f64>,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vermeil-runs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    let RunsArgs { program, variant, size, watch, observe, cpus, trace, rounds_per_us } = RunsArgs::parse();
    if !program.runs_on(variant) {
        return Err(io::Error::other(format!("{} does not run on {}", program.name(), variant.name())));
    }
    let pace = rounds_per_us.map_or_else(MixingPace::measure, |rounds_per_us| MixingPace { rounds_per_us });
    let sample = ChildRun { program, variant, size, pace, watch, observe, cpus }.here(trace.as_deref())?;
    println!("{}", serde_json::to_string(&sample).map_err(io::Error::other)?);
    Ok(())
}
