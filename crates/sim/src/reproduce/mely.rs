//! Mely (Gaud et al., ICDCS 2010): stealing on a file server with long events, and on a web server
//! with short events.

use vermeil_sched::Policy;

use super::{FigureKind, Findings, MATCHES, Reproduction, RunEffort};
use crate::SimError;
use crate::machine::{SimMachine, profile};
use crate::options::SimOptions;
use crate::results::Results;
use crate::workload::{CompiledProgram, workload};
use crate::world::simulate;

const SOURCE: &str = "F. Gaud et al., Efficient workstealing for multicore event-driven systems, ICDCS 2010; F. Gaud, thesis, 2010";

/// Maximum number of events of a color in a row, if colors stand in queues: the paper's threshold.
const BATCH: usize = 10;
/// Idle cores of the documents' runtimes keep searching.
const SPIN_NS: u64 = 1_000_000;

pub(super) const SFS: Reproduction = Reproduction {
    name: "mely-sfs",
    about: "an encrypting file server: stealing pays, with either runtime",
    source: SOURCE,
    fitted: &["workload sfs: cycles of the two serial handlers (9,000), from the gain of stealing"],
    run: sfs,
};

pub(super) const WEB: Reproduction = Reproduction {
    name: "mely-web",
    about: "a web server with 1 KB files: stealing by a scan costs a third, Mely's does not",
    source: SOURCE,
    fitted: &[
        "workload web: cycles of the handlers, the clients' pause (700 us), requests found by one look at epoll (1,024): from \
         the stolen work of 20,000 cycles and the loss of a third",
        "machine xeon-2x4-l2pairs: lines moved by a scan for each event (1.2), from 197,000 cycles per steal; lines moved by \
         a steal (22), from Mely's 6,000",
        "assumed: a color that has become empty belongs again to the core that its number hashes to; thieves wait for locks",
    ],
    run: web,
};

/// The documents' runtimes on this machine.
fn run(machine: &SimMachine, program: &CompiledProgram, policy: Policy) -> Results {
    let options = SimOptions {
        batch_events: (policy != Policy::Libasync).then_some(BATCH),
        spin_ns: SPIN_NS,
        waits_for_locks: true,
        colors_return: true,
        ..SimOptions::new(policy)
    };
    simulate(machine, program, &options)
}

/// The gain of `a` over `b`, in percent.
pub(super) fn gain(a: &Results, b: &Results) -> f64 {
    100.0 * (a.per_second() / b.per_second() - 1.0)
}

fn kilocycles(machine: &SimMachine, results: &Results, ns: u64) -> f64 {
    let steals = results.sum(|core| core.steals).max(1);
    machine.cycles(ns / steals) as f64 / 1_000.0
}

/// Compares `adaptive`, as in this project's runtime, with the better policy of the document.
pub(super) fn add_adaptive(
    findings: &mut Findings,
    machine: &SimMachine,
    program: &CompiledProgram,
    best: &Results,
) {
    let adaptive = simulate(machine, program, &SimOptions::new(Policy::Adaptive));
    findings.add_ours("adaptive against the best of the document's, %", gain(&adaptive, best), MATCHES);
}

fn sfs(_: RunEffort) -> Result<Findings, SimError> {
    let (machine, program) = (profile("xeon-2x4-l2pairs")?, workload("sfs")?);
    let [none, libasync, mely] =
        [Policy::None, Policy::Libasync, Policy::Mely].map(|policy| run(&machine, &program, policy));
    let mut findings = Findings::new();
    findings.add(
        "stealing of Libasync-SMP, %",
        35.0,
        gain(&libasync, &none),
        FigureKind::Fitted,
        (25.0, 50.0),
    );
    findings.add("Mely against that, %", 0.0, gain(&mely, &libasync), FigureKind::Predicted, (-3.0, 5.0));
    add_adaptive(&mut findings, &machine, &program, &mely);
    Ok(findings)
}

fn web(_: RunEffort) -> Result<Findings, SimError> {
    let (machine, program) = (profile("xeon-2x4-l2pairs")?, workload("web")?);
    let [none, libasync, mely] =
        [Policy::None, Policy::Libasync, Policy::Mely].map(|policy| run(&machine, &program, policy));
    let mut findings = Findings::new();
    let cost = |results: &Results| kilocycles(&machine, results, results.sum(|core| core.steal_ns));
    let work = |results: &Results| kilocycles(&machine, results, results.sum(|core| core.stolen_work_ns));
    let misses = |results: &Results| {
        let runtime = results.sum(|core| core.runtime_lines_milli) as f64 / 1_000.0;
        (results.all_traffic().missed_lines as f64 + runtime) / results.events() as f64
    };
    let fewer = 100.0 * (misses(&mely) / misses(&libasync) - 1.0);
    findings.add(
        "stealing of Libasync-SMP, %",
        -33.0,
        gain(&libasync, &none),
        FigureKind::Fitted,
        (-45.0, -22.0),
    );
    findings.add("Mely against that, %", 73.0, gain(&mely, &libasync), FigureKind::Predicted, (45.0, 95.0));
    findings.add(
        "Libasync-SMP, thousand cycles per steal",
        197.0,
        cost(&libasync),
        FigureKind::Fitted,
        (130.0, 280.0),
    );
    findings.add("for stolen work of", 20.0, work(&libasync), FigureKind::Fitted, (13.0, 35.0));
    findings.add("Mely, thousand cycles per steal", 6.0, cost(&mely), FigureKind::Fitted, (3.5, 9.0));
    findings.add("for stolen work of", 23.0, work(&mely), FigureKind::Predicted, (12.0, 60.0));
    findings.add(
        "Mely, misses per event against Libasync-SMP, %",
        -57.0,
        fewer,
        FigureKind::Predicted,
        (-70.0, -20.0),
    );
    add_adaptive(&mut findings, &machine, &program, &mely);
    Ok(findings)
}
