//! The runs: every program under every policy, on the runtime several times and in the simulator
//! once.
//!
//! Runs in rounds over all policies, so that a disturbance of the machine does not affect a single
//! policy. Tested below at smoke size, where the numbers mean nothing.

use std::time::Duration;

use vermeil::Runtime;
use vermeil_sched::Policy;
use vermeil_sim::{SimMachine, simulate};

use crate::finding::{Finding, PolicyLine};
use crate::others::CpuTicks;
use crate::script::{Pieces, RunSize, Script, ScriptReading};
use crate::{ParityError, finding::Better};

/// The policies of both ways: all policies that need no plan and no second node.
pub const POLICIES: [Policy; 4] = [Policy::None, Policy::Libasync, Policy::Mely, Policy::Adaptive];

/// Maximum time for the stop of a runtime whose program has ended.
const STOP: Duration = Duration::from_secs(10);

/// The parameters of a comparison.
#[derive(Clone, Debug)]
pub struct CompareOptions {
    /// The cpus of the real runs, as many as the described machine has cores.
    pub cpus: Vec<usize>,
    /// The size of each program.
    pub size: RunSize,
    /// Real runs of each program and policy.
    pub rounds: usize,
}

/// Runs all programs both ways; calls `done` after each real run.
///
/// # Errors
/// The description is of another machine, or the runtime does not start.
pub fn compare(
    machine: &SimMachine,
    options: &CompareOptions,
    done: impl Fn(),
) -> Result<Vec<Finding>, ParityError> {
    let here = options.cpus.len();
    if machine.cores() != here {
        return Err(ParityError::OtherMachine { described: machine.cores(), here });
    }
    let pieces = Pieces::measure();
    let mut findings = Vec::new();
    for script in Script::ALL {
        let mut real = vec![Vec::new(); POLICIES.len()];
        let mut used = CpuTicks::default();
        for _ in 0..options.rounds.max(1) {
            for (policy, readings) in POLICIES.iter().zip(&mut real) {
                let before = CpuTicks::now(&options.cpus);
                readings.push(real_run(script, policy, options, pieces)?);
                used.add(before, CpuTicks::now(&options.cpus));
                done();
            }
        }
        let program = script.simulated(machine, options.size, pieces)?;
        let simulated = POLICIES.iter().map(|policy| {
            let results = simulate(machine, &program, &vermeil_sim::SimOptions::new(policy.clone()));
            let waits = results.waits.permille_ns(990);
            let rate = script.counted(options.size) as f64 * 1e9 / results.counted_ns as f64;
            ScriptReading { rate, wait_us: Some(waits as f64 / 1e3) }
        });
        let simulated: Vec<ScriptReading> = simulated.collect();
        for &(measure, better) in script.measures() {
            let lines = lines(better, &real, &simulated);
            let others_share = used.others_share();
            findings.push(Finding { program: script.name(), measure, better, lines, others_share });
        }
    }
    Ok(findings)
}

fn real_run(
    script: Script,
    policy: &Policy,
    options: &CompareOptions,
    pieces: Pieces,
) -> Result<ScriptReading, ParityError> {
    let runtime = Runtime::builder().cpus(options.cpus.iter().copied()).policy(policy.clone()).build();
    let runtime = runtime.map_err(|error| ParityError::Runtime(error.to_string()))?;
    let reading = script.real(&runtime.handle(), options.size, pieces);
    runtime.shutdown(STOP);
    Ok(reading)
}

fn lines(better: Better, real: &[Vec<ScriptReading>], simulated: &[ScriptReading]) -> Vec<PolicyLine> {
    let value = |reading: &ScriptReading| match better {
        Better::More => reading.rate,
        Better::Less => reading.wait_us.unwrap_or_default(),
    };
    let line = |((policy, real), simulated): ((&Policy, &Vec<ScriptReading>), &ScriptReading)| {
        let mut real: Vec<f64> = real.iter().map(value).collect();
        real.sort_by(f64::total_cmp);
        PolicyLine { policy: policy.to_string(), real, simulated: value(simulated) }
    };
    POLICIES.iter().zip(real).zip(simulated).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn every_program_runs_both_ways() {
        let machine = vermeil_sim::MachineSpec::from_toml(vermeil_sim::profile_text("epyc-2x64").unwrap());
        let cpus: Vec<usize> = vermeil_io::current_affinity().into_iter().take(2).collect();
        let tree = format!("node:1 l3:1 core:{} pu:1", cpus.len());
        let tree = vermeil_topology::synthetic::parse(&tree).unwrap();
        let machine = SimMachine::described("two", &tree, &machine.unwrap()).unwrap();
        let options = CompareOptions { cpus, size: RunSize::Smoke, rounds: 1 };
        let runs = Cell::new(0);
        let findings = compare(&machine, &options, || runs.set(runs.get() + 1)).unwrap();
        assert_eq!((findings.len(), runs.get()), (4, Script::ALL.len() * POLICIES.len()));
        for finding in &findings {
            let text = finding.to_string();
            assert!(finding.lines.iter().all(|line| line.median() > 0.0 && line.simulated > 0.0), "{text}");
            assert!(text.contains("pairs told apart"), "{text}");
        }
    }

    #[test]
    fn a_description_of_another_machine_is_refused() {
        let machine = vermeil_sim::profile("epyc-2x64").unwrap();
        let options = CompareOptions { cpus: vec![0], size: RunSize::Smoke, rounds: 1 };
        let error = compare(&machine, &options, || ()).unwrap_err().to_string();
        assert!(error.contains("128 cores") && error.contains("1 cpus"), "{error}");
    }
}
