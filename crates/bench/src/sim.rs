//! The bench of the simulator: events that one real core simulates in a second, and the memory that takes.
//!
//! Each case is a shipped workload on a shipped machine under a policy, simulated by a process of its own (`child`, and the
//! binary `vermeil-sims`), timed by the processor time of its thread, so that neighbours cost little. The trace hash must be
//! the same in every round. What becomes of the numbers stands in `report`.

pub mod child;
pub mod report;

use std::path::PathBuf;
use std::process::Command;

use crate::cgi::points::{Key, Points};
use crate::stop::Stop;
use crate::{Error, Result};
use child::Sample;
use report::{Outputs, Report};

/// Rounds of a full run, unless told otherwise.
pub const ROUNDS: usize = 5;

/// A workload on a machine under a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// A workload that ships.
    pub workload: &'static str,
    /// A machine that ships.
    pub machine: &'static str,
    /// The policy's name.
    pub policy: &'static str,
    /// Virtual time of the full size, in milliseconds: about a second of real time each.
    pub full_ms: u64,
}

/// The cases: few and many cores, events that touch nothing and much, without and with stealing.
pub const CASES: [Case; 5] = [
    Case { workload: "mixed", machine: "xeon-2x4-l2pairs", policy: "none", full_ms: 10_000 },
    Case { workload: "mixed", machine: "xeon-2x4-l2pairs", policy: "adaptive", full_ms: 10_000 },
    Case { workload: "web", machine: "xeon-2x4-l2pairs", policy: "mely", full_ms: 600 },
    Case { workload: "keyed", machine: "numa-4x32", policy: "adaptive", full_ms: 3_000 },
    Case { workload: "sqrt-pipeline", machine: "epyc-2x64", policy: "adaptive", full_ms: 0 },
];

/// How much of the bench is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Everything, for numbers.
    Full,
    /// A hundredth of it, to see that it works.
    Smoke,
}

impl Size {
    /// Virtual time of a case in this size; 0 where the workload ends by itself.
    fn virtual_ms(self, case: Case) -> u64 {
        match self {
            Self::Full => case.full_ms,
            Self::Smoke => (case.full_ms / 100).max(1),
        }
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much of the bench.
    pub size: Size,
    /// Interleaved rounds.
    pub rounds: usize,
    /// The binary `vermeil-sims`.
    pub sims: PathBuf,
    /// The repository, for the commit's name.
    pub repository: PathBuf,
}

/// Runs the bench.
///
/// # Errors
/// When a simulation fails, two rounds of a case differ, or the run is interrupted.
pub fn run(options: &Options, stop: &Stop) -> Result<Report> {
    let mut points = Points::default();
    let mut hashes = [None; CASES.len()];
    for _ in 0..options.rounds {
        for (case, hash) in CASES.into_iter().zip(&mut hashes) {
            stop.check()?;
            let sample = simulate(options, case)?;
            if hash.is_some_and(|known| known != sample.hash) {
                return Err(Error::form("the trace hash", format!("{case:?} differs from round to round")));
            }
            *hash = Some(sample.hash);
            keep(&mut points, case, &sample);
        }
    }
    Ok(Report::new(options, points))
}

fn simulate(options: &Options, case: Case) -> Result<Sample> {
    let mut command = Command::new(&options.sims);
    command.args([case.workload, case.machine, case.policy]);
    command.arg(options.size.virtual_ms(case).to_string());
    let output = command.output().map_err(Error::path("run", &options.sims))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::Command { command: format!("{command:?}"), output: said });
    }
    serde_json::from_slice(&output.stdout).map_err(|error| Error::form("the output of vermeil-sims", error))
}

fn keep(points: &mut Points, case: Case, sample: &Sample) {
    let key = |metric, unit| Key {
        program: case.workload.to_owned(),
        variant: format!("{} {}", case.machine, case.policy),
        metric,
        unit,
    };
    let seconds = sample.cpu_ns as f64 / 1e9;
    points.push(key("events_per_s", "1/s"), sample.events as f64 / seconds);
    points.push(key("moments_per_s", "1/s"), sample.moments as f64 / seconds);
    points.push(key("memory_mb", "MB"), sample.memory_kb as f64 / 1024.0);
}

/// Runs the smoke size and checks the shape of everything it leaves, in a temporary folder; asserts nothing about time.
///
/// # Errors
/// As for [`run()`], and when a number is missing or impossible.
pub fn smoke(options: &Options, stop: &Stop) -> Result<Report> {
    let folder = tempfile::tempdir().map_err(Error::thing("make", "a temporary folder"))?;
    let outputs = Outputs::of(folder.path());
    let report = run(options, stop)?;
    report.write(&outputs)?;
    let rows = crate::rows::read(&outputs.rows)?;
    if rows.len() != 3 * CASES.len() || rows.iter().any(|row| row.low <= 0.0) {
        return Err(Error::form(
            "results/sim.ndjson",
            format!("numbers are missing or impossible: {rows:?}"),
        ));
    }
    Ok(report)
}
