//! The bench of the receive path: the cpu that handles packets, and the priority of receiving over
//! other work.
//!
//! Two hosts in network namespaces are connected by a pair of virtual cards. Three ways of
//! receiving, after KNET (Lemoine, 2004): one queue on one cpu (NAPI), packets distributed to the
//! cpus by the kernel afterwards (CLAS), packets classified before the kernel sees them, with a
//! queue and a polling thread for each cpu (KNET). A second part measures a web server beside a
//! flood of unwanted packets, by the priority of receiving (receive livelock: Mogul and
//! Ramakrishnan, 1997). The hosts are in `bed`, the machine's accounting in `count`, the three
//! paths in `paths`, the flood in `livelock`.

pub mod bed;
pub mod count;
pub mod livelock;
pub mod paths;
mod report;

use std::time::Duration;

use crate::BenchResult;
use crate::machine::BenchCpus;
use crate::options::BenchOptions;
use crate::points::Points;
use crate::report::BenchReport;
use crate::size::BenchSize;
use crate::stop::StopFlag;
use bed::{KnetReceiving, Urgency};

/// Rounds of a full run by default: the smallest number with a median and a spread.
pub const ROUNDS: usize = 3;

/// The duration of one load.
fn lasts(size: BenchSize) -> Duration {
    match size {
        BenchSize::Full => Duration::from_secs(3),
        BenchSize::Smoke => Duration::from_millis(300),
    }
}

/// Runs the bench.
///
/// # Errors
/// The right to make namespaces is missing, a server does not start, or the run is interrupted. In
/// every case all started processes are stopped and all namespaces and cards are removed.
pub fn run(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let cpus = BenchCpus::allowed()?;
    let mut points = Points::default();
    for round in 0..options.rounds {
        paths::round(options, cpus, round, &mut points, stop)?;
        livelock::round(options, cpus, round, &mut points, stop)?;
    }
    Ok(report::report(options, &points))
}

/// Runs the smoke size and checks the shape of all results, in a temporary folder; asserts nothing
/// about time. Prints a line and returns `None` where the hosts cannot be made.
///
/// # Errors
/// As for [`run()`], and when a number is missing or impossible.
pub fn smoke(options: &BenchOptions, stop: &StopFlag) -> BenchResult<Option<BenchReport>> {
    if let Err(why) = bed::can_be_made(BenchCpus::allowed()?) {
        eprintln!("SKIPPED: hosts in network namespaces cannot be made here: {why}");
        return Ok(None);
    }
    let report = run(options, stop)?;
    let paths = KnetReceiving::ALL.map(|receiving| (receiving.name(), "requests_per_cpu_s"));
    let floods = Urgency::ALL.map(|urgency| (urgency.name(), "goodput_share"));
    report.check(&[paths, floods].concat())?;
    Ok(Some(report))
}
