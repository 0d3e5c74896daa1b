//! The bench of the simulator: simulated events per second on one real core, and the memory of the
//! simulation.
//!
//! Each case is a shipped workload on a shipped machine under a policy, simulated by a separate
//! process (`child`, and the binary `vermeil-sims`). The bench uses the processor time of the
//! process's thread, because neighbours hardly change that time. The trace hash must be the same in
//! every round. The report is in `report`.

pub mod child;
mod report;

use std::process::Command;

use crate::options::BenchOptions;
use crate::points::{PointKey, Points};
use crate::report::BenchReport;
use crate::size::BenchSize;
use crate::stop::StopFlag;
use crate::{BenchError, BenchResult};
use child::SimSample;

/// Rounds of a full run by default.
pub const ROUNDS: usize = 5;

/// A workload on a machine under a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimCase {
    /// A workload that ships.
    pub workload: &'static str,
    /// A machine that ships.
    pub machine: &'static str,
    /// The policy's name.
    pub policy: &'static str,
    /// Virtual time of the full size, in milliseconds: about a second of real time each.
    pub full_ms: u64,
}

/// The cases: few and many cores, events with little and with much data, without and with stealing.
pub const CASES: [SimCase; 5] = [
    SimCase { workload: "mixed", machine: "xeon-2x4-l2pairs", policy: "none", full_ms: 10_000 },
    SimCase { workload: "mixed", machine: "xeon-2x4-l2pairs", policy: "adaptive", full_ms: 10_000 },
    SimCase { workload: "web", machine: "xeon-2x4-l2pairs", policy: "mely", full_ms: 600 },
    SimCase { workload: "keyed", machine: "numa-4x32", policy: "adaptive", full_ms: 3_000 },
    SimCase { workload: "sqrt-pipeline", machine: "epyc-2x64", policy: "adaptive", full_ms: 0 },
];

impl SimCase {
    /// Virtual time in milliseconds; 0 if the workload ends without a limit.
    fn virtual_ms(self, size: BenchSize) -> u64 {
        match size {
            BenchSize::Full => self.full_ms,
            BenchSize::Smoke => (self.full_ms / 100).max(1),
        }
    }

    /// Machine and policy under the names of the rows.
    fn variant(self) -> String {
        format!("{} {}", self.machine, self.policy)
    }
}

/// Runs the bench.
///
/// # Errors
/// A simulation fails, two rounds of a case differ, or the run is interrupted.
pub fn run(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let mut points = Points::default();
    let mut hashes = [None; CASES.len()];
    for _ in 0..options.rounds {
        for (case, hash) in CASES.into_iter().zip(&mut hashes) {
            stop.check()?;
            let sample = simulate(options, case)?;
            if hash.is_some_and(|known| known != sample.hash) {
                return Err(BenchError::form(
                    "the trace hash",
                    format!("{case:?} differs from round to round"),
                ));
            }
            *hash = Some(sample.hash);
            keep(&mut points, case, &sample);
        }
    }
    Ok(report::report(options, &points))
}

fn simulate(options: &BenchOptions, case: SimCase) -> BenchResult<SimSample> {
    let program = options.binary("vermeil-sims");
    let mut command = Command::new(&program);
    command.args([case.workload, case.machine, case.policy]);
    command.arg(case.virtual_ms(options.size).to_string());
    let output = command.output().map_err(BenchError::path("run", &program))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(BenchError::Command { command: format!("{command:?}"), output: said });
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| BenchError::form("the output of vermeil-sims", error))
}

fn keep(points: &mut Points, case: SimCase, sample: &SimSample) {
    let key =
        |metric, unit| PointKey { program: case.workload.to_owned(), variant: case.variant(), metric, unit };
    let seconds = sample.cpu_ns as f64 / 1e9;
    points.push(key("events_per_s", "1/s"), sample.events as f64 / seconds);
    points.push(key("runs_per_s", "1/s"), sample.runs as f64 / seconds);
    points.push(key("memory_mb", "MB"), sample.memory_kb as f64 / 1024.0);
}

/// Runs the smoke size and checks the shape of all results, in a temporary folder; asserts nothing
/// about time.
///
/// # Errors
/// As for [`run()`], and when a number is missing or impossible.
pub fn smoke(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let report = run(options, stop)?;
    let variants = CASES.map(SimCase::variant);
    let metrics = ["events_per_s", "runs_per_s", "memory_mb"];
    let expected = variants.iter().flat_map(|variant| metrics.map(|metric| (&**variant, metric)));
    report.check(&expected.collect::<Vec<_>>())?;
    Ok(report)
}
