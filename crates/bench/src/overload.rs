//! The bench of overload: the rate of good answers when up to four times the capacity arrives.
//!
//! Vermeil and nginx serve a small file, with a connection for each request, on a quota of a cpu,
//! so that the load can offer several times the servers' capacity. The capacity of a round is the
//! median of some probes. Rates are compared by the pace of their round, because a shared machine
//! changes within minutes. Requests arrive in an open loop, and clients time out after a second.
//! After each overload the load offers half the capacity, and the bench measures the time until
//! that is served again. A last run offers all overloads in turns of some seconds each, and
//! measures the lost goodput. The floor is a loop that accepts, receives, answers and closes, with
//! a queue of fixed length: no server on this machine can keep the share that the floor loses. The
//! cpu quota is in `quota`, one run in `run`, the overloads in turns in `turns`, the lost goodput
//! in `peak`, the report in `report`.

mod peak;
pub mod quota;
mod report;
pub mod run;
mod turns;

use std::time::Duration;

use crate::BenchResult;
use crate::options::BenchOptions;
use crate::peers::PeerServer;
use crate::points::Points;
use crate::report::BenchReport;
use crate::size::BenchSize;
use crate::stop::StopFlag;
use peak::{Round, pace, parts_of_peak};
use run::{OverloadBench, key};

/// Rounds of a full run by default: two rounds may meet a busy machine, and the median remains
/// good.
pub const ROUNDS: usize = 5;

/// The offered rates in hundredths of the measured capacity.
const OFFERED: [u32; 6] = [50, 90, 150, 200, 300, 400];

/// The levels of overload of a size.
fn offered(size: BenchSize) -> &'static [u32] {
    match size {
        BenchSize::Full => &OFFERED,
        BenchSize::Smoke => &OFFERED[3..4],
    }
}

fn is_overload(offered: &u32) -> bool {
    *offered > 100
}

/// The overloaded program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OverloadSubject {
    Server(PeerServer),
    Floor,
}

impl OverloadSubject {
    fn name(self) -> &'static str {
        match self {
            Self::Server(server) => server.name(),
            Self::Floor => "floor",
        }
    }

    /// The subjects that can be started.
    fn here(size: BenchSize) -> BenchResult<Vec<Self>> {
        Ok(PeerServer::here(size)?.into_iter().map(Self::Server).chain([Self::Floor]).collect())
    }
}

/// The duration of an overload, and of the half load after the overload.
fn phases(size: BenchSize) -> (Duration, Duration) {
    match size {
        BenchSize::Full => (Duration::from_secs(4), Duration::from_secs(2)),
        BenchSize::Smoke => (Duration::from_millis(500), Duration::from_millis(500)),
    }
}

/// Runs the bench.
///
/// # Errors
/// A server does not start, or the run is interrupted. In every case all started processes are
/// stopped.
pub fn run(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let mut points = Points::default();
    let subjects = OverloadSubject::here(options.size)?;
    let bench = OverloadBench::new(options, stop)?;
    let mut rounds = Vec::new();
    for round in 0..options.rounds {
        let mut order = subjects.clone();
        order.rotate_left(round % subjects.len());
        rounds.push(bench.round(&order, &mut points)?);
    }
    keep_parts(&subjects, &rounds, &mut points);
    Ok(report::report(options, bench.quota(), &points))
}

/// Adds each server's fraction of its peak at each level, and that fraction relative to the
/// floor's.
fn keep_parts(subjects: &[OverloadSubject], rounds: &[Vec<(OverloadSubject, Round)>], points: &mut Points) {
    let of = |subject: OverloadSubject| -> Vec<&Round> {
        rounds.iter().flatten().filter(|(whose, _)| *whose == subject).map(|(_, round)| round).collect()
    };
    let floor = of(OverloadSubject::Floor);
    let paces: Vec<f64> = floor.iter().copied().map(pace).collect();
    let floor = parts_of_peak(&floor, &paces);
    for &subject in subjects {
        for (round, floor) in parts_of_peak(&of(subject), &paces).iter().zip(&floor) {
            for (&(offered, part), &(_, floor)) in round.iter().zip(floor) {
                points.push(key(subject, offered, "kept", ""), part);
                points.push(key(subject, offered, "kept_of_floor", ""), part / floor.max(f64::MIN_POSITIVE));
            }
        }
    }
}

/// Runs the smoke size and checks the shape of all results, in a temporary folder; asserts nothing
/// about time.
///
/// # Errors
/// As for [`run()`], and when a number is missing or impossible.
pub fn smoke(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let report = run(options, stop)?;
    let metrics = ["capacity_per_s", "good_per_s", "kept", "kept_of_floor", "cpu_us", "p99_ms", "recovery_s"];
    report.check(&metrics.map(|metric| (PeerServer::Vermeil.name(), metric)))?;
    report.check(&metrics.map(|metric| (OverloadSubject::Floor.name(), metric)))?;
    Ok(report)
}
