//! `vermeil sim swarm`: runs drawn from seeds, under checkers.

use crate::{Exit, print};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use vermeil_sim::{SwarmCase, Violation, report::thousands};

/// Draw machines, workloads, policies and faults from seeds, run the cases, and check the rules of
/// the scheduler.
///
/// Ends with 1 at the first seed that breaks a rule. The output has the command that replays the
/// seed, and the smallest case found that breaks the same rule.
#[derive(Debug, Args)]
#[command(after_long_help = crate::after_help(super::EXAMPLES))]
pub(super) struct SwarmArgs {
    /// The number of seeds
    ///
    /// From 1 to 2^32 - 1.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = RangedU64ValueParser::<u64>::new().range(1..1 << 32))]
    seeds: u64,

    /// The first seed
    ///
    /// From 0 to 2^63.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = RangedU64ValueParser::<u64>::new().range(0..1 << 63))]
    first: u64,

    /// Run this seed alone, and print the drawn case
    ///
    /// From 0 to 2^64 - 1. Default: --seeds seeds from --first on.
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "first"])]
    seed: Option<u64>,
}

impl SwarmArgs {
    /// Runs the seeds.
    pub(super) fn run(self) -> Exit {
        match self.seed {
            Some(seed) => one(seed),
            None => many(self.first, self.seeds),
        }
    }
}

fn one(seed: u64) -> Exit {
    let case = SwarmCase::draw(seed);
    let outcome = case.run();
    if let Some(violation) = outcome.violation {
        return broken(&case, &violation);
    }
    let (events, hash) = (thousands(outcome.events), outcome.hash);
    print::result(&format!(
        "{}\nno rule broken in {events} events, trace hash {hash:016x}\n",
        case.describe()
    ))
}

fn many(first: u64, seeds: u64) -> Exit {
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len} seeds {elapsed}/{duration}")
        .expect("a template that is tested");
    let bar = ProgressBar::with_draw_target(Some(seeds), ProgressDrawTarget::stderr()).with_style(style);
    let (mut events, mut hash) = (0, 0u64);
    for seed in first..first + seeds {
        let case = SwarmCase::draw(seed);
        let outcome = case.run();
        if let Some(violation) = outcome.violation {
            bar.finish_and_clear();
            return broken(&case, &violation);
        }
        events += outcome.events;
        hash = hash.rotate_left(1) ^ outcome.hash;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let last = first + seeds - 1;
    let events = thousands(events);
    print::result(&format!(
        "seeds {first} to {last}: no rule broken in {events} events, trace hash {hash:016x}\n"
    ))
}

fn broken(case: &SwarmCase, violation: &Violation) -> Exit {
    let smallest = case.minimise(violation.invariant).describe();
    let why = format!(
        "seed {seed} breaks a rule: {violation}\nreplay: vermeil sim swarm --seed {seed}\n\nas drawn: {}\n\nminimised: {smallest}",
        case.describe(),
        seed = case.seed,
    );
    print::failure(&why, Exit::Failed)
}
