//! The mechanisms of the runtime that show on real threads: pairs of a program of `bench runtime`
//! with and without a mechanism.
//!
//! The simulator knows neither the queue's lock nor the lines of a queue entry, which these
//! mechanisms save. Each run is a process of its own, because a process reads its switches once.

use std::process::Command;

use vermeil_ablation::{Mechanism, VARIABLE};

use super::{keep, switched_off, variant};
use crate::options::BenchOptions;
use crate::points::Points;
use crate::runtime::child::ChildSample;
use crate::size::BenchSize;
use crate::stop::StopFlag;
use crate::{BenchError, BenchResult};

/// The metric of events per second.
pub(super) const RATE: &str = "threads_per_s";
/// The metric of the cpu time of all threads per event.
pub(super) const CPU: &str = "threads_cpu_ns";

/// Each mechanism with the program that it is made for.
const PAIRS: [(Mechanism, &str); 1] = [(Mechanism::LifoSlot, "ping-pong")];

/// Pairs for each round of the bench, because a run takes a fraction of a second and varies much.
const PAIRS_OF_ROUND: usize = 5;

/// Runs all pairs.
pub(super) fn run(options: &BenchOptions, stop: &StopFlag, points: &mut Points) -> BenchResult<()> {
    let pairs = if options.size == BenchSize::Full { options.rounds * PAIRS_OF_ROUND } else { 1 };
    for (mechanism, program) in PAIRS {
        for pair in 0..pairs {
            let mut order = [None, Some(mechanism)];
            order.rotate_left(pair % 2);
            for without in order {
                stop.check()?;
                sample(options, program, without, points)?;
            }
        }
    }
    Ok(())
}

/// One run of one program.
fn sample(
    options: &BenchOptions,
    program: &'static str,
    without: Option<Mechanism>,
    points: &mut Points,
) -> BenchResult<()> {
    let size = if options.size == BenchSize::Full { "full" } else { "smoke" };
    let mut command = Command::new(options.binary("vermeil-runs"));
    command.args([program, "adaptive", "--size", size]).env(VARIABLE, switched_off(without));
    let output = command.output().map_err(BenchError::thing("run", program))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(BenchError::peer(program, said.trim().to_owned()));
    }
    let sample: ChildSample =
        serde_json::from_slice(&output.stdout).map_err(|error| BenchError::form(program, error))?;
    let events = sample.events as f64;
    let per_second = events / (sample.elapsed_ns.max(1) as f64 / 1e9);
    let cpu_ns = sample.cpu_ns as f64 / events;
    keep(points, (program, variant(without)), &[(RATE, "1/s", per_second), (CPU, "ns", cpu_ns)]);
    Ok(())
}
