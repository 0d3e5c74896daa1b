//! A million records over ten thousand keys, a few of them very common: order per key, all cores in
//! use.
//!
//! Shows a color for every key. The state of a key needs no lock and its records stay in order. A
//! common key does not delay other keys, as long as another core steals them.
//!
//! ```text
//! cargo run -p vermeil --release --example keyed_stream -- --skew 1.2
//! cargo run -p vermeil --release --example keyed_stream -- --skew 0 --policy none
//! ```
//!
//! The program is `vermeil_programs::keyed_stream`.

use clap::Parser;
use vermeil_programs::{cli, kernel::MixingPace, keyed_stream};

/// Records over ten thousand keys, in order for each key.
#[derive(Debug, Parser)]
struct KeyedStreamArgs {
    #[command(flatten)]
    runtime: cli::RuntimeArgs,
    #[command(flatten)]
    size: keyed_stream::KeyedStreamSize,
    /// Rounds of mixing that stand for a microsecond. The checksum depends on the number, and
    /// neither on the machine nor on the policy.
    #[arg(long, default_value_t = MixingPace::FIXED.rounds_per_us, value_parser = cli::above_zero)]
    rounds_per_us: f64,
}

fn main() -> Result<(), cli::CliFailure> {
    let args = KeyedStreamArgs::parse();
    let running = args.runtime.start()?;
    let handle = running.handle();
    let outcome = keyed_stream::run(&handle, args.size, MixingPace { rounds_per_us: args.rounds_per_us });
    running.end(&outcome)
}
