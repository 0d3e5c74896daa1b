//! Policies side by side: one program on one machine under each policy, and the ideal schedule.
//!
//! Owns the list of runs in a comparison. Leaves out the presentation (`report.rs`). Tested in
//! `report/tests.rs`.

use serde_json::{Value, json};
use vermeil_sched::Policy;

use super::{compare, to_json};
use crate::machine::Machine;
use crate::options::Options;
use crate::results::Results;
use crate::workload::Program;
use crate::world::simulate;

/// The runs of a comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// A run for each policy, in the given order.
    pub runs: Vec<Results>,
    /// The ideal schedule: one queue for all cores, first come first served, without costs.
    pub ideal: Results,
}

impl Comparison {
    /// Runs the program under each policy. `options` sets everything else.
    pub fn run(machine: &Machine, program: &Program, options: &Options, policies: &[Policy]) -> Self {
        let run = |policy: &Policy| {
            simulate(machine, program, &Options { policy: policy.clone(), ..options.clone() })
        };
        Self { runs: policies.iter().map(run).collect(), ideal: ideal(machine, program, options) }
    }

    /// As a table.
    pub fn to_text(&self, machine: &Machine, program: &Program) -> String {
        compare(machine, program, &self.runs, Some(&self.ideal))
    }

    /// As JSON: an array of runs.
    pub fn to_json(&self, machine: &Machine, program: &Program) -> Value {
        let run = |results| to_json(machine, program, results, Some(&self.ideal));
        json!(self.runs.iter().map(run).collect::<Vec<_>>())
    }
}

/// The ideal schedule of the same load.
pub fn ideal(machine: &Machine, program: &Program, options: &Options) -> Results {
    let ideal = Options { seed: options.seed, run_ns: options.run_ns, ..Options::ideal() };
    simulate(machine, program, &ideal)
}
