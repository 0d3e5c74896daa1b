//! Policies side by side: one program on one machine under each policy, and the ideal schedule.
//!
//! Owns the list of runs in a comparison. Leaves out the presentation (`report.rs`). Tested in
//! `report/tests.rs`.

use serde_json::{Value, json};
use vermeil_sched::Policy;

use super::{compare, to_json};
use crate::machine::SimMachine;
use crate::options::SimOptions;
use crate::results::Results;
use crate::workload::CompiledProgram;
use crate::world::simulate;

/// The runs of a comparison.
#[derive(Clone, Debug)]
pub struct RunComparison {
    /// A run for each policy, in the given order.
    pub runs: Vec<Results>,
    /// The ideal schedule: one queue for all cores, first come first served, without costs.
    pub ideal: Results,
}

impl RunComparison {
    /// Runs the program under each policy. `options` sets everything else.
    pub fn run(
        machine: &SimMachine,
        program: &CompiledProgram,
        options: &SimOptions,
        policies: &[Policy],
    ) -> Self {
        let run = |policy: &Policy| {
            simulate(machine, program, &SimOptions { policy: policy.clone(), ..options.clone() })
        };
        Self { runs: policies.iter().map(run).collect(), ideal: ideal(machine, program, options) }
    }

    /// As a table.
    pub fn to_text(&self, machine: &SimMachine, program: &CompiledProgram) -> String {
        compare(machine, program, &self.runs, Some(&self.ideal))
    }

    /// As JSON: an array of runs.
    pub fn to_json(&self, machine: &SimMachine, program: &CompiledProgram) -> Value {
        let run = |results| to_json(machine, program, results, Some(&self.ideal));
        json!(self.runs.iter().map(run).collect::<Vec<_>>())
    }
}

/// The ideal schedule of the same load.
pub fn ideal(machine: &SimMachine, program: &CompiledProgram, options: &SimOptions) -> Results {
    let ideal = SimOptions { seed: options.seed, run_ns: options.run_ns, ..SimOptions::ideal() };
    simulate(machine, program, &ideal)
}
