//! Sixteen handlers in a row; each computes 10,000 square roots for each of 4,000 events.
//!
//! Shows handlers with a color each: the stages run in parallel, and each stage runs its events in
//! order. The placement hardly matters as long as no core is idle, because the handlers touch no
//! memory. Compare the policies:
//!
//! ```text
//! cargo run -p vermeil --release --example sqrt_pipeline -- --policy none
//! cargo run -p vermeil --release --example sqrt_pipeline -- --policy placed:cache-aware
//! ```
//!
//! The program is `vermeil_programs::sqrt_pipeline`.

use clap::Parser;
use vermeil_programs::{cli, sqrt_pipeline};

/// Sixteen handlers in a row take square roots of every event.
#[derive(Debug, Parser)]
struct SqrtPipelineArgs {
    #[command(flatten)]
    runtime: cli::RuntimeArgs,
    #[command(flatten)]
    size: sqrt_pipeline::SqrtPipelineSize,
}

fn main() -> Result<(), cli::CliFailure> {
    let args = SqrtPipelineArgs::parse();
    let running = args.runtime.start()?;
    let handle = running.handle();
    let outcome = sqrt_pipeline::run(&handle, args.size);
    running.end(&outcome)
}
