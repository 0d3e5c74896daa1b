//! Runs drawn from seeds: each seed gives a machine, a workload, a policy, knobs and faults.
//!
//! A seed that breaks a rule is a case to replay. A case can be made smaller while it still breaks
//! the same rule. Owns the drawing and the shrinking; the rules are in `check.rs`. `swarm/tests.rs`
//! runs 200 seeds.

mod draw;
#[cfg(test)]
mod tests;

use vermeil_sched::CoreIndex;

use crate::check::{InvariantChecker, Violation};
use crate::machine::{SimMachine, profile};
use crate::options::SimOptions;
use crate::results::Results;
use crate::workload::{CompiledProgram, WorkloadSpec};
use crate::world::simulate_watched;

/// Every eighth seed runs twice, and the hashes must be equal.
const TWICE_EVERY: u64 = 8;

/// Moments of all runs that make a case smaller, so that a failing seed is reported within seconds.
const SHRINK_MOMENTS: u64 = 4_000_000;

/// The multiple of a case's moments that a smaller case may take. A case without one of its
/// handlers may loop until the end of the time to drain.
const SMALLER_TIMES: u64 = 2;

/// The values that a seed draws.
#[derive(Clone, Debug)]
pub struct SwarmCase {
    /// The seed.
    pub seed: u64,
    /// A shipped machine.
    pub machine: &'static str,
    /// The cores of the machine that take part.
    pub cores: Vec<CoreIndex>,
    /// The program and its load.
    pub workload: WorkloadSpec,
    /// Policy, knobs, faults.
    pub options: SimOptions,
}

/// The result of a case.
#[derive(Clone, Debug)]
pub struct CaseOutcome {
    /// The first violation.
    pub violation: Option<Violation>,
    /// Number of events that ran.
    pub events: u64,
    /// Number of moments that the simulation worked through.
    pub moments: u64,
    /// The trace hash.
    pub hash: u64,
}

impl SwarmCase {
    /// Draws a case.
    pub fn draw(seed: u64) -> Self {
        draw::case(seed)
    }

    /// Runs the case under the checker.
    pub fn run(&self) -> CaseOutcome {
        self.run_within(u64::MAX)
    }

    /// Runs the case for at most this number of moments.
    fn run_within(&self, moments: u64) -> CaseOutcome {
        let first = self.run_once(moments);
        if self.seed.is_multiple_of(TWICE_EVERY) && first.violation.is_none() {
            let second = self.run_once(moments);
            if first.hash != second.hash {
                let what = format!("two runs differ: {:016x} and {:016x}", first.hash, second.hash);
                let violation = Some(Violation { invariant: "I18", at_ns: 0, what });
                return CaseOutcome { violation, ..first };
            }
        }
        first
    }

    fn run_once(&self, moments: u64) -> CaseOutcome {
        match self.results(moments) {
            Ok((results, checker)) => {
                let (events, moments, hash) = (results.steps, results.moments, results.hash);
                CaseOutcome { violation: checker.verdict(&results), events, moments, hash }
            }
            // A drawn case is valid, so only a smaller case can fail here. The invariant "draw"
            // differs from the invariant that `minimise` looks for, so the smaller case is dropped.
            Err(error) => {
                let violation = Violation { invariant: "draw", at_ns: 0, what: error.to_string() };
                CaseOutcome { violation: Some(violation), events: 0, moments: 0, hash: 0 }
            }
        }
    }

    fn results(&self, moments: u64) -> Result<(Results, InvariantChecker), crate::SimError> {
        let machine: SimMachine = profile(self.machine)?.only(&self.cores)?;
        let program = CompiledProgram::new(&self.workload)?;
        let checker = InvariantChecker::of(&machine, &program, &self.options).within(moments);
        Ok(simulate_watched(&machine, &program, &self.options, checker))
    }

    /// The smallest case that breaks the same rule and is found within a bounded number of moments.
    pub fn minimise(&self, invariant: &str) -> Self {
        let mut smallest = self.clone();
        let most = SMALLER_TIMES * self.run().moments;
        let mut left = SHRINK_MOMENTS;
        loop {
            let still = |case: &Self| {
                let outcome = case.run_within(most.min(left));
                left = left.saturating_sub(outcome.moments);
                outcome.violation.is_some_and(|violation| violation.invariant == invariant)
            };
            match smallest.smaller().into_iter().find(still) {
                Some(case) => smallest = case,
                None => return smallest,
            }
        }
    }

    /// Cases with one part less.
    fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        let mut with = |change: &dyn Fn(&mut Self)| {
            let mut case = self.clone();
            change(&mut case);
            all.push(case);
        };
        for index in 0..self.options.faults.len() {
            with(&|case| _ = case.options.faults.remove(index));
        }
        for index in 0..self.workload.shift.len() {
            with(&|case| drop(case.workload.shift.remove(index)));
        }
        for index in 0..self.workload.source.len().saturating_sub(1) {
            with(&|case| drop(case.workload.source.remove(index)));
        }
        for index in (0..self.workload.handler.len()).rev() {
            with(&|case| remove_handler(&mut case.workload, index));
        }
        for index in (0..self.workload.handler.len()).filter(|&at| !self.workload.handler[at].also.is_empty())
        {
            with(&|case| case.workload.handler[index].also.clear());
        }
        for index in 0..self.workload.object.len() {
            with(&|case| remove_object(&mut case.workload, index));
        }
        if self.cores.len() > 1 {
            with(&|case| case.cores.truncate(case.cores.len() / 2));
            with(&|case| case.cores.truncate(case.cores.len() - 1));
        }
        if let Some(run_ns) = self.options.run_ns.filter(|&run_ns| run_ns > 1_000) {
            with(&|case| case.options.run_ns = Some(run_ns / 2));
        }
        all
    }

    /// The case in readable form: the drawn values, and the workload as a file.
    pub fn describe(&self) -> String {
        let cores: Vec<String> = self.cores.iter().map(|core| core.0.to_string()).collect();
        let workload = toml::to_string(&self.workload).unwrap_or_default();
        format!(
            "seed {}: machine {}, cores {}, policy {}\nfaults: {:?}\nrun {} us, spin {} ns, batch {:?}\n\n{workload}",
            self.seed,
            self.machine,
            cores.join(","),
            self.options.policy,
            self.options.faults,
            self.options.run_ns.unwrap_or(0) / 1_000,
            self.options.spin_ns,
            self.options.batch_events,
        )
    }
}

/// Removes a handler, every transition to the handler, and its shifts.
fn remove_handler(workload: &mut WorkloadSpec, index: usize) {
    let name = workload.handler.remove(index).name;
    workload.shift.retain(|shift| shift.handler.as_ref() != Some(&name));
    for handler in &mut workload.handler {
        handler.next.retain(|next| next.to != name);
        handler.also.retain(|next| next.to != name);
    }
}

/// Removes an object, every touch of the object, and every color that comes from the object.
fn remove_object(workload: &mut WorkloadSpec, index: usize) {
    let name = workload.object.remove(index).name;
    for handler in &mut workload.handler {
        handler.touch.retain(|touch| touch.object != name);
        if handler.color == name {
            handler.color = "request".to_owned();
        }
    }
}
