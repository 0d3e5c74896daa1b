//! Chains of 2-microsecond events beside chains of 20-millisecond jobs, and the delays of the short
//! events.
//!
//! Shows how a long handler delays the events queued behind it, and how a policy reduces the
//! delays: compare the policies.
//!
//! ```text
//! cargo run -p vermeil --release --example mixed_jobs -- --policy none
//! cargo run -p vermeil --release --example mixed_jobs -- --policy adaptive
//! ```
//!
//! The program is `vermeil_programs::mixed_jobs`.

use clap::Parser;
use vermeil_programs::{cli, kernel::MixingPace, mixed_jobs};

/// Chains of short events beside chains of long jobs.
#[derive(Debug, Parser)]
struct MixedJobsArgs {
    #[command(flatten)]
    runtime: cli::RuntimeArgs,
    #[command(flatten)]
    size: mixed_jobs::MixedJobsSize,
    /// Rounds of mixing that stand for a microsecond. The checksum depends on the number, and
    /// neither on the machine nor on the policy.
    #[arg(long, default_value_t = MixingPace::FIXED.rounds_per_us, value_parser = cli::above_zero)]
    rounds_per_us: f64,
}

fn main() -> Result<(), cli::CliFailure> {
    let args = MixedJobsArgs::parse();
    let running = args.runtime.start()?;
    let handle = running.handle();
    let (outcome, delays) =
        mixed_jobs::run(&handle, args.size, MixingPace { rounds_per_us: args.rounds_per_us });
    running.end(&outcome)?;
    let us = |quantile| delays.value_at_quantile(quantile) as f64 / 1e3;
    println!(
        "\ndelay of short events: median {:.1} us, 99 % {:.1} us, 99.9 % {:.1} us, longest {:.1} us",
        us(0.5),
        us(0.99),
        us(0.999),
        delays.max() as f64 / 1e3
    );
    Ok(())
}
