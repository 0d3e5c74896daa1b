//! One simulation of `cargo xtask bench sim`, in a separate process; prints one line of JSON.

use std::process::ExitCode;

use clap::Parser;
use vermeil_bench::sim::child;

/// The allocator of the binary `vermeil`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
struct SimsArgs {
    /// The workload.
    workload: String,
    /// The machine.
    machine: String,
    /// The policy.
    policy: String,
    /// Milliseconds of virtual time beyond the warm-up; 0: to the workload's end.
    virtual_ms: u64,
}

fn main() -> ExitCode {
    let SimsArgs { workload, machine, policy, virtual_ms } = SimsArgs::parse();
    match child::run(&workload, &machine, &policy, virtual_ms) {
        Ok(sample) => {
            println!("{}", serde_json::to_string(&sample).expect("numbers are JSON"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("vermeil-sims: {error}");
            ExitCode::FAILURE
        }
    }
}
