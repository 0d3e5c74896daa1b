//! Policies side by side: one program on one machine under each policy, and the ideal schedule.
//!
//! Owns the list of runs in a comparison. Leaves out the presentation (`report.rs`). Tested in
//! `report/tests.rs`.

use serde_json::{Value, json};

use super::{compare, permille_ns, to_json};
use crate::machine::SimMachine;
use crate::options::SimOptions;
use crate::results::Results;
use crate::workload::CompiledProgram;
use crate::world::simulate;

/// The part of another policy's rate that a policy must reach so that the latencies of both are
/// comparable. Clients that wait for answers send less to a slower policy, whose latency is then
/// lower for that reason alone.
const COMPARABLE: f64 = 0.97;

/// How far a run is behind the best run of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regret {
    /// The rate in percent below the best rate; `None` if every rate is 0.
    pub rate_percent: Option<f64>,
    /// The 99th percentile of latency as a multiple of the least one among the runs whose rate is
    /// at least `COMPARABLE` (97 %) of this run's; `None` without answers.
    pub p99_times: Option<f64>,
}

impl Regret {
    /// The regret of `run`, which is one of `runs`.
    pub(super) fn of(run: &Results, runs: &[Results]) -> Self {
        let best = runs.iter().map(rate).fold(0.0, f64::max);
        let p99_ns = |run: &Results| permille_ns(&run.latency, 990);
        let comparable = runs.iter().filter(|other| rate(other) >= COMPARABLE * rate(run));
        let least_ns = comparable.filter_map(p99_ns).min();
        Self {
            rate_percent: (best > 0.0).then(|| 100.0 * (1.0 - rate(run) / best)),
            p99_times: p99_ns(run).zip(least_ns).map(|(ns, least_ns)| ns as f64 / least_ns.max(1) as f64),
        }
    }
}

/// Requests per second, or events per second for a program that answers none. The program decides
/// and not the run, so that all runs of a comparison have the same unit.
pub(super) fn rate(results: &Results) -> f64 {
    if results.answers { results.per_second() } else { results.events_per_second() }
}

/// The runs of a comparison.
#[derive(Clone, Debug)]
pub struct RunComparison {
    /// A run for each policy, in the given order.
    pub runs: Vec<Results>,
    /// The ideal schedule: one queue for all cores, first come first served, without costs.
    pub ideal: Results,
}

impl RunComparison {
    /// Runs the program once for each of `policies`, the options of a policy with its plan. The
    /// ideal schedule has the seed and the length of the first run.
    ///
    /// # Panics
    /// There are no policies.
    pub fn run(machine: &SimMachine, program: &CompiledProgram, policies: &[SimOptions]) -> Self {
        let run = |options: &SimOptions| simulate(machine, program, options);
        Self { runs: policies.iter().map(run).collect(), ideal: ideal(machine, program, &policies[0]) }
    }

    /// As a table.
    pub fn to_text(&self, machine: &SimMachine, program: &CompiledProgram) -> String {
        compare(machine, program, &self.runs, Some(&self.ideal))
    }

    /// As JSON: an array of runs.
    pub fn to_json(&self, machine: &SimMachine, program: &CompiledProgram) -> Value {
        let run = |results| {
            let mut run = to_json(machine, program, results, Some(&self.ideal));
            let regret = Regret::of(results, &self.runs);
            run["behind_best"] =
                json!({ "rate_percent": regret.rate_percent, "p99_times": regret.p99_times });
            run
        };
        json!(self.runs.iter().map(run).collect::<Vec<_>>())
    }
}

/// The ideal schedule of the same load.
pub fn ideal(machine: &SimMachine, program: &CompiledProgram, options: &SimOptions) -> Results {
    let ideal = SimOptions { seed: options.seed, run_ns: options.run_ns, ..SimOptions::ideal() };
    simulate(machine, program, &ideal)
}
