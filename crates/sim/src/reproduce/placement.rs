//! Adaptive placement (Genevès, 2008): two pipelines of sixteen handlers, stealing compared with
//! plans.

use vermeil_sched::{PlanName, Policy};

use super::mely::{add_adaptive, gain};
use super::{FigureKind, Findings, Reproduction, RunEffort};
use crate::SimError;
use crate::machine::{SimMachine, profile_text};
use crate::options::SimOptions;
use crate::results::Results;
use crate::workload::{CompiledProgram, workload};
use crate::world::simulate;

const SOURCE: &str = "S. Geneves, master's thesis, Grenoble, 2008";

/// Idle cores of Libasync-SMP keep searching.
const SPIN_NS: u64 = 1_000_000;

/// One core has other work that the policies do not know. Therefore pinned handlers lose against
/// stealing although all cores are equal.
const HOUSEKEEPING: &str = "\n[[slow]]\ncores = [0]\npercent = 93\n";

const PLANS: [PlanName; 4] =
    [PlanName::RoundRobin, PlanName::Intermediate2, PlanName::Intermediate1, PlanName::CacheAware];

pub(super) const ROOTS: Reproduction = Reproduction {
    name: "placement-roots",
    about: "sixteen handlers in a row, 10,000 square roots each: stealing against plans",
    source: SOURCE,
    fitted: &["machine: core 0 gives 7 % of its time to something else, from stealing being 6 % better"],
    run: roots,
};

pub(super) const IMAGES: Reproduction = Reproduction {
    name: "placement-images",
    about: "sixteen filters over 700 KB images: plans against stealing, and the trial of plans",
    source: SOURCE,
    fitted: &[
        "workload image-pipeline: cycles of a filter, from a run of about ten seconds",
        "machine xeon5100-2x2: memory bandwidth (6.7 GB/s), from the best plan being 42 % better",
        "machine: core 0 gives 7 % of its time to something else, as in placement-roots; thieves wait for locks",
    ],
    run: images,
};

fn machine() -> Result<SimMachine, SimError> {
    SimMachine::from_toml(&format!("{}{HOUSEKEEPING}", profile_text("xeon5100-2x2")?))
}

fn run(machine: &SimMachine, program: &CompiledProgram, policy: Policy) -> Results {
    let options = SimOptions { spin_ns: SPIN_NS, waits_for_locks: true, ..SimOptions::new(policy) };
    simulate(machine, program, &options)
}

fn best_of(runs: &[Results]) -> &Results {
    runs.iter().max_by(|a, b| a.per_second().total_cmp(&b.per_second())).expect("there are plans")
}

fn roots(_: RunEffort) -> Result<Findings, SimError> {
    let (machine, program) = (machine()?, workload("sqrt-pipeline")?);
    let stealing = run(&machine, &program, Policy::Libasync);
    let plans: Vec<Results> = PLANS.map(|plan| run(&machine, &program, Policy::Placed(plan))).into();
    let mut findings = Findings::new();
    let best = best_of(&plans);
    findings.add(
        "stealing against the best plan, %",
        6.0,
        gain(&stealing, best),
        FigureKind::Fitted,
        (3.0, 9.0),
    );
    let worst = plans.iter().map(|plan| gain(plan, best)).fold(0.0, f64::min);
    findings.add("the worst plan against the best, %", 0.0, worst, FigureKind::Predicted, (-3.0, 0.0));
    add_adaptive(&mut findings, &machine, &program, &stealing);
    Ok(findings)
}

fn images(_: RunEffort) -> Result<Findings, SimError> {
    let (machine, program) = (machine()?, workload("image-pipeline")?);
    let stealing = run(&machine, &program, Policy::Libasync);
    let plans: Vec<Results> = PLANS.map(|plan| run(&machine, &program, Policy::Placed(plan))).into();
    let gains: Vec<f64> = plans.iter().map(|plan| gain(plan, &stealing)).collect();
    let mut findings = Findings::new();
    let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
    findings.add("cache-aware plan against stealing, %", 42.0, gains[3], FigureKind::Fitted, (30.0, 55.0));
    findings.add("the worst plan against stealing, %", 15.0, least, FigureKind::Predicted, (5.0, 30.0));
    let rank = gains.iter().filter(|&&gain| gain > gains[3] + 0.5).count();
    findings.add(
        "plans better than the cache-aware one",
        0.0,
        rank as f64,
        FigureKind::Predicted,
        (0.0, 0.0),
    );
    // The author gives 27 to 32 % for the trial, which runs each plan before it keeps the best.
    let trial = gain(&run(&machine, &program, Policy::Trial), &stealing);
    findings.add("trial of plans against stealing, %", 29.5, trial, FigureKind::Predicted, (20.0, 42.0));
    let seconds = plans[3].counted_ns as f64 / 1e9;
    findings.add("run with it, s", 10.0, seconds, FigureKind::Fitted, (8.0, 12.0));
    add_adaptive(&mut findings, &machine, &program, best_of(&plans));
    Ok(findings)
}
