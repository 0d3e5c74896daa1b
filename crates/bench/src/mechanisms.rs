//! The bench of mechanisms: the gain of each feedback loop and special path on the way of a
//! request, and in the scheduler.
//!
//! Each row compares two runs of one binary, with and without a mechanism, by the switches of
//! `vermeil_ablation`. `served` measures the mechanisms of the server: the same load on two starts
//! of the server, in turns. `handshakes` measures requests beside handshakes, `threads` mechanisms
//! of the runtime by a program, and `simulated` those of the scheduler on simulated machines with
//! more cores than the machine of the bench. A mechanism without a gain in a row, and without a
//! fault that a test shows, is to be deleted.

mod handshakes;
mod report;
mod served;
mod simulated;
mod threads;

use std::time::Duration;

use vermeil_ablation::Mechanism;

use crate::BenchResult;
use crate::options::BenchOptions;
use crate::points::{PointKey, Points};
use crate::report::BenchReport;
use crate::stop::StopFlag;

/// Pairs of a full run by default: the smallest number whose extremes and median differ in kind.
pub const ROUNDS: usize = 5;
/// Time under load of each half of a pair.
pub const DURATION: Duration = Duration::from_secs(2);
/// The variant of runs with every mechanism; the other variants are called after the mechanism that
/// they leave out.
const COMPLETE: &str = "complete";

/// Runs the bench.
///
/// # Errors
/// The server does not start or answers wrongly, a simulation fails, or the run is interrupted. In
/// every case all started processes are stopped.
pub fn run(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let mut points = Points::default();
    served::run(options, stop, &mut points)?;
    handshakes::run(options, stop, &mut points)?;
    threads::run(options, stop, &mut points)?;
    simulated::run(options, stop, &mut points)?;
    Ok(report::report(options, &points))
}

/// Runs the smoke size and checks the shape of all results, in a temporary folder; asserts nothing
/// about time.
///
/// # Errors
/// As for [`run()`], and when a number is missing or impossible.
pub fn smoke(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let report = run(options, stop)?;
    let expected = [
        (COMPLETE, served::CPU),
        (served::SMOKE_MECHANISM.name(), served::CPU),
        (COMPLETE, threads::RATE),
        (Mechanism::LifoSlot.name(), threads::CPU),
        (COMPLETE, simulated::RATE),
        (simulated::MECHANISMS[0].name(), simulated::RATE),
    ];
    report.check(&expected)?;
    Ok(report)
}

/// The variant of runs without `mechanism`, or of complete runs.
fn variant(mechanism: Option<Mechanism>) -> &'static str {
    mechanism.map_or(COMPLETE, Mechanism::name)
}

/// The list of switches for a run without `mechanism`, or for a complete run.
fn switched_off(mechanism: Option<Mechanism>) -> &'static str {
    mechanism.map_or("", Mechanism::name)
}

/// Adds the numbers of one run.
fn keep(points: &mut Points, (work, variant): (&str, &str), numbers: &[(&'static str, &'static str, f64)]) {
    for &(metric, unit, value) in numbers {
        let key = PointKey { program: work.into(), variant: variant.into(), metric, unit };
        points.push(key, value);
    }
}
