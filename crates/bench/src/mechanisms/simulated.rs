//! The mechanisms of the scheduler: simulated runs with and without a mechanism.
//!
//! Equal seeds give equal runs, so a pair needs neither turns nor a quiet machine, and each round
//! has another seed. Each run is a process of its own, because a process reads its switches once.

use std::process::Command;
use std::sync::Mutex;
use std::thread;

use serde::Deserialize;
use vermeil_ablation::{Mechanism, VARIABLE};

use super::{keep, switched_off, variant};
use crate::options::BenchOptions;
use crate::points::Points;
use crate::size::BenchSize;
use crate::stop::StopFlag;
use crate::{BenchError, BenchResult};

/// The metric of answers per second.
pub(super) const RATE: &str = "sim_per_s";
/// The metrics of the median and the 99th percentile of the time from an arrival to its answer.
pub(super) const P50: &str = "sim_p50_us";
pub(super) const P99: &str = "sim_p99_us";
/// The metric of the busy time of all cores per answer.
pub(super) const CPU: &str = "sim_cpu_us";

/// The mechanisms of the scheduler.
pub(super) const MECHANISMS: [Mechanism; 8] = [
    Mechanism::HandOver,
    Mechanism::GivesWay,
    Mechanism::ShorterQueue,
    Mechanism::MoveToPoster,
    Mechanism::WarmBatch,
    Mechanism::LengthClasses,
    Mechanism::LifoSlot,
    Mechanism::FasterCore,
];

/// The shipped workloads that show their character within [`RUN`].
const SHIPPED: [&str; 6] = ["web", "sfs", "packets", "keyed", "mixed", "unbalanced"];
/// The shipped workloads that take [`PIPELINE_RUN`], because they warm up for longer.
const PIPELINES: [&str; 2] = ["image-pipeline", "sqrt-pipeline"];
/// Workloads of the bench alone: long events in ways that no shipped workload has.
const OWN: [&str; 3] = ["fan-out", "long-colors", "crowded"];
/// The folder of [`OWN`], in the repository.
const OWN_FOLDER: &str = "crates/bench/src/mechanisms";
/// Shipped machines: pairs of cores with a cache, four nodes, cores of two speeds, and 128 cores.
const MACHINES: [&str; 4] = ["xeon-2x4-l2pairs", "opteron8380-4x4", "hybrid", "epyc-2x64"];
/// Seeds of a full run: with three, a ratio on one side of 1 in all is rare by chance alone.
pub(super) const SEEDS: u64 = 3;
/// Virtual time of a full run.
pub(super) const RUN: &str = "60ms";
/// The same for pipelines.
pub(super) const PIPELINE_RUN: &str = "1500ms";
/// Runs side by side: a run's result does not depend on its neighbours.
const THREADS: usize = 2;

/// The part of a simulator's report that the bench reads.
#[derive(Debug, Deserialize)]
struct SimReport {
    answered: u64,
    per_second: f64,
    latency_ns: SimLatency,
    cores: Vec<ReportedCore>,
}

#[derive(Debug, Deserialize)]
struct SimLatency {
    p50: Option<u64>,
    p99: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct ReportedCore {
    busy_ns: u64,
}

/// One simulated run.
#[derive(Clone, Copy, Debug)]
struct SimulatedRun {
    workload: &'static str,
    machine: &'static str,
    seed: u64,
    without: Option<Mechanism>,
}

/// The name of a workload on a machine in rows.
fn work_name(workload: &str, machine: &str) -> String {
    format!("{workload} on {machine}")
}

/// The names of all workloads on all machines.
pub(super) fn works(size: BenchSize) -> impl Iterator<Item = String> {
    pairs(size).map(|(workload, machine)| work_name(workload, machine))
}

/// Of the smoke size only the own workloads on one machine, because a shipped workload warms up for
/// long.
fn pairs(size: BenchSize) -> impl Iterator<Item = (&'static str, &'static str)> {
    let (shipped, pipelines, machines) = match size {
        BenchSize::Full => (&SHIPPED[..], &PIPELINES[..], &MACHINES[..]),
        BenchSize::Smoke => (&[][..], &[][..], &MACHINES[..1]),
    };
    let workloads = move || shipped.iter().chain(pipelines).chain(&OWN).copied();
    machines.iter().flat_map(move |&machine| workloads().map(move |workload| (workload, machine)))
}

/// Runs all simulations.
pub(super) fn run(options: &BenchOptions, stop: &StopFlag, points: &mut Points) -> BenchResult<()> {
    let seeds = if options.size == BenchSize::Full { SEEDS } else { 1 };
    let variants = || [None].into_iter().chain(MECHANISMS.map(Some));
    let runs: Vec<SimulatedRun> = pairs(options.size)
        .flat_map(|(workload, machine)| {
            (1..=seeds).flat_map(move |seed| {
                variants().map(move |without| SimulatedRun { workload, machine, seed, without })
            })
        })
        .collect();
    let reports = side_by_side(&runs, |run| {
        stop.check()?;
        simulate(options, run)
    })?;
    for (run, report) in runs.iter().zip(reports) {
        let (answered, busy_ns) =
            (report.answered as f64, report.cores.iter().map(|core| core.busy_ns).sum::<u64>());
        let mut numbers = vec![(RATE, "1/s", report.per_second)];
        if answered > 0.0 {
            numbers.push((CPU, "us", busy_ns as f64 / 1e3 / answered));
        }
        for (metric, latency_ns) in [(P50, report.latency_ns.p50), (P99, report.latency_ns.p99)] {
            numbers.extend(latency_ns.map(|latency_ns| (metric, "us", latency_ns as f64 / 1e3)));
        }
        keep(points, (&work_name(run.workload, run.machine), variant(run.without)), &numbers);
    }
    Ok(())
}

/// The results of `run` for each item, in order.
fn side_by_side<T: Sync, R: Send>(
    items: &[T],
    run: impl Fn(&T) -> BenchResult<R> + Sync,
) -> BenchResult<Vec<R>> {
    let rest = Mutex::new(items.iter().enumerate());
    let work = || {
        let mut done = Vec::new();
        loop {
            let next = rest.lock().expect("no run panics").next();
            let Some((place, item)) = next else { return Ok(done) };
            done.push((place, run(item)?));
        }
    };
    let mut done = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        let ends = threads.into_iter().map(|thread| thread.join().expect("no run panics"));
        ends.collect::<BenchResult<Vec<_>>>()
    })?
    .into_iter()
    .flatten()
    .collect::<Vec<_>>();
    done.sort_by_key(|(place, _)| *place);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

fn simulate(options: &BenchOptions, run: &SimulatedRun) -> BenchResult<SimReport> {
    let time = match options.size {
        BenchSize::Full if PIPELINES.contains(&run.workload) => PIPELINE_RUN,
        BenchSize::Full => RUN,
        BenchSize::Smoke => "1ms",
    };
    let workload = match OWN.contains(&run.workload) {
        true => options.repository.join(OWN_FOLDER).join(format!("{}.toml", run.workload)),
        false => run.workload.into(),
    };
    let mut command = Command::new(&options.vermeil);
    command.args(["sim", "run"]).arg(workload).args(["--machine", run.machine, "--json"]);
    command
        .args(["--time", time, "--seed"])
        .arg(run.seed.to_string())
        .env(VARIABLE, switched_off(run.without));
    let output = command.output().map_err(BenchError::thing("run", "the simulator"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(BenchError::peer("vermeil sim", said.trim().to_owned()));
    }
    let report = serde_json::from_slice(&output.stdout);
    report.map_err(|error| BenchError::form("the simulator's report", error.to_string()))
}
