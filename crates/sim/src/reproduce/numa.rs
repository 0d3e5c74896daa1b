//! Apache and PHP on four nodes (Gaud et al., 2011): the number of clients that a processor serves,
//! and the limits.
//!
//! The stock server is one instance whose work goes to any idle core, as Linux places work. N-Copy
//! is one instance per node. Clients choose network cards in turn, always the same card, or a card
//! of the node with the fewest pending requests.

use vermeil_sched::{CoreIndex, Policy};

use super::{FigureKind, Findings, MATCHES, Reproduction, RunEffort};
use crate::SimError;
use crate::machine::{SimMachine, profile};
use crate::options::SimOptions;
use crate::report::ipc;
use crate::results::Results;
use crate::workload::{CompiledProgram, SourceKind, SourceQueue, WorkloadSpec, workload_text};
use crate::world::simulate;

pub(super) const SOURCE: &str = "F. Gaud, R. Lachaize, B. Lepers, G. Muller, V. Quema, Optimisations applicatives pour multi-coeurs NUMA, 2011";

/// Network cards of each processor.
const CARDS_EACH: u32 = 5;
/// Cores of a processor.
const CORES_EACH: u32 = 4;
/// An idle core of Linux searches for work at every tick, and whenever the core becomes idle.
const SPIN_NS: u64 = 100_000_000;
/// Good: 95 percent of requests within `GOOD_NS`. Tolerable: 99 percent within `TOLERABLE_NS`.
pub(super) const GOOD_NS: u64 = 3_000_000_000;
const TOLERABLE_NS: u64 = 5_000_000_000;
/// Step of a quick search for clients per processor. Follows from the bands of 15 percent: both
/// bounds of a band lie between results of the search.
const QUICK_STEP: u32 = 500;

pub(super) const CLIENTS_TABLE: Reproduction = Reproduction {
    name: "numa-clients",
    about: "clients per processor of Apache and PHP on one, two and four processors (tables 1, 2 and 3)",
    source: SOURCE,
    fitted: &[
        "workload support: cycles and think time, from 8,900 clients on one processor and how fast the quality falls beyond",
        "workload support: lines touched, from the published lines per KB of one processor",
        "machine opteron8380-4x4: overlap of random accesses and burstiness, from the IPC of four processors",
        "machine opteron8380-4x4: bytes of a probe (30), from the use of the busiest link by the stock server",
        "workload support: what a path walk touches of the directory cache, from +4.5 % on one processor",
    ],
    run: clients,
};

pub(super) const NODES: Reproduction = Reproduction {
    name: "numa-nodes",
    about: "slow and fast nodes under the three ways to choose a network card (tables 4, 5 and 6)",
    source: SOURCE,
    fitted: &["nothing beyond numa-clients"],
    run: nodes,
};

/// The setup of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NumaSetup {
    per_node: bool,
    choice: SourceQueue,
    metadata_cache: bool,
    scheduler: Scheduler,
}

/// The scheduler that places the server's work on cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheduler {
    /// Linux, as in the document.
    Linux,
    /// `adaptive`.
    Ours,
}

const STOCK: NumaSetup = NumaSetup {
    per_node: false,
    choice: SourceQueue::RoundRobin,
    metadata_cache: false,
    scheduler: Scheduler::Linux,
};
pub(super) const N_COPY: NumaSetup = NumaSetup { per_node: true, ..STOCK };
const FIXED: NumaSetup = NumaSetup { choice: SourceQueue::Fixed, ..N_COPY };
const BALANCED: NumaSetup = NumaSetup { choice: SourceQueue::LeastPending, ..N_COPY };
const CACHED: NumaSetup = NumaSetup { metadata_cache: true, ..BALANCED };

/// The machine, with some of its processors.
pub(super) fn machine(processors: &[u32]) -> Result<SimMachine, SimError> {
    let cores = processors
        .iter()
        .flat_map(|&processor| (0..CORES_EACH).map(move |core| CoreIndex(processor * CORES_EACH + core)));
    profile("opteron8380-4x4")?.only(&cores.collect::<Vec<_>>())
}

/// The workload with this number of clients for each processor.
pub(super) fn spec(setup: NumaSetup, clients: u32, processors: u32) -> Result<WorkloadSpec, SimError> {
    let text = workload_text("support")?;
    let mut spec: WorkloadSpec = toml::from_str(text)
        .map_err(|source| SimError::Toml { what: "workload", source: Box::new(source) })?;
    for source in &mut spec.source {
        if let SourceKind::Closed { clients: all, .. } = &mut source.load {
            *all = clients * processors;
        }
        source.choice = setup.choice;
        source.queues = Some(CARDS_EACH * processors);
    }
    for object in spec.object.iter_mut().filter(|object| setup.per_node && object.home == "cores") {
        object.home = "touch".to_owned();
    }
    for handler in spec.handler.iter_mut().filter(|_| setup.metadata_cache) {
        handler
            .next
            .iter_mut()
            .filter(|next| next.to == "walk")
            .for_each(|next| next.to = "apache".to_owned());
    }
    Ok(spec)
}

fn run(setup: NumaSetup, machine: &SimMachine, clients: u32) -> Result<Results, SimError> {
    let processors = machine.cores() as u32 / CORES_EACH;
    run_program(setup, machine, &CompiledProgram::new(&spec(setup, clients, processors)?)?)
}

/// Runs a program made from [`spec`], possibly changed.
pub(super) fn run_program(
    setup: NumaSetup,
    machine: &SimMachine,
    program: &CompiledProgram,
) -> Result<Results, SimError> {
    let options = match setup.scheduler {
        Scheduler::Linux => {
            SimOptions { spin_ns: SPIN_NS, waits_for_locks: true, ..SimOptions::new(Policy::Libasync) }
        }
        Scheduler::Ours => SimOptions::new(Policy::Adaptive),
    };
    let options = SimOptions { instance_per_node: setup.per_node, ..options };
    Ok(simulate(machine, program, &options))
}

/// Whether the server serves this number of clients well enough.
fn serves(results: &Results) -> bool {
    results.latency.within_permille(GOOD_NS) >= 950 && results.latency.within_permille(TOLERABLE_NS) >= 990
}

/// A search for the maximum number of clients per processor that are served well enough.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientSearch {
    /// Bounds in steps. The lower bound counts as served, the upper bound as not served.
    range: (u32, u32),
    step: u32,
}

impl ClientSearch {
    /// The search whose results the pages hold.
    pub(super) const FULL: Self = Self { range: (50, 110), step: 100 };

    /// A coarse search that can end outside of `band` on either side.
    fn around(band: (f64, f64)) -> Self {
        let steps = |clients: f64| clients / f64::from(QUICK_STEP);
        let range = (steps(band.0).ceil() as u32 - 1, steps(band.1).floor() as u32 + 2);
        Self { range, step: QUICK_STEP }
    }

    /// The result, to a step.
    pub(super) fn most(self, run: impl Fn(u32) -> Result<Results, SimError>) -> Result<f64, SimError> {
        let (mut low, mut high) = self.range;
        while high - low > 1 {
            let middle = (low + high) / 2;
            if serves(&run(middle * self.step)?) { low = middle } else { high = middle }
        }
        Ok(f64::from(low * self.step))
    }
}

/// As in the document: the mean over the combinations of this number of processors. One pair of a
/// slow and a fast processor stands for four pairs.
fn mean_of_combinations(setup: NumaSetup, processors: u32, search: ClientSearch) -> Result<f64, SimError> {
    let most = |list: &[u32]| {
        let machine = machine(list)?;
        search.most(|clients| run(setup, &machine, clients))
    };
    Ok(match processors {
        1 => (most(&[0])? + most(&[1])?) / 2.0,
        2 => (most(&[0, 3])? + most(&[1, 2])? + 4.0 * most(&[0, 1])?) / 6.0,
        _ => most(&[0, 1, 2, 3])?,
    })
}

/// A row of table 1.
struct ClientsRow {
    name: &'static str,
    setup: NumaSetup,
    /// Published clients of each processor, on one, two and four processors.
    published: [f64; 3],
    /// The name in a comparison with the stock server on four processors.
    short_name: &'static str,
    /// The published gain over the stock server on four processors, in percent.
    gain_percent: f64,
}

const CLIENTS_ROWS: [ClientsRow; 4] = [
    ClientsRow {
        name: "stock",
        setup: STOCK,
        published: [8900.0, 7900.0, 6600.0],
        short_name: "stock",
        gain_percent: 0.0,
    },
    ClientsRow {
        name: "N-Copy",
        setup: N_COPY,
        published: [8900.0, 7700.0, 7200.0],
        short_name: "N-Copy",
        gain_percent: 9.1,
    },
    ClientsRow {
        name: "and balanced by load",
        setup: BALANCED,
        published: [8900.0, 8100.0, 8000.0],
        short_name: "balanced",
        gain_percent: 21.2,
    },
    ClientsRow {
        name: "and a metadata cache",
        setup: CACHED,
        published: [9300.0, 8800.0, 8800.0],
        short_name: "cached",
        gain_percent: 33.3,
    },
];

/// The clients that a setup serves on this number of processors.
fn add_clients(
    findings: &mut Findings,
    row: &ClientsRow,
    processors: u32,
    effort: RunEffort,
) -> Result<f64, SimError> {
    let document = row.published[processors.ilog2() as usize];
    let band = (0.85 * document, 1.15 * document);
    let search = if effort == RunEffort::Full { ClientSearch::FULL } else { ClientSearch::around(band) };
    let ours = mean_of_combinations(row.setup, processors, search)?;
    let is_fitted = processors == 1 && row.setup == STOCK;
    let kind = if is_fitted { FigureKind::Fitted } else { FigureKind::Predicted };
    let name = format!("{}, {processors} processors, clients each", row.name);
    findings.add(name, document, ours, kind, band);
    Ok(ours)
}

fn clients(effort: RunEffort) -> Result<Findings, SimError> {
    let mut findings = Findings::new();
    let [stock, middle @ .., cached] = &CLIENTS_ROWS;
    let (rows, sizes): (Vec<&ClientsRow>, &[u32]) = match effort {
        RunEffort::Full => ([stock].into_iter().chain(middle).chain([cached]).collect(), &[1, 2, 4]),
        // The ends: the fewest clients and the most.
        RunEffort::Quick => (vec![stock, cached], &[4]),
    };
    let mut on_four = Vec::new();
    for row in &rows {
        let mut ours = 0.0;
        for &size in sizes {
            ours = add_clients(&mut findings, row, size, effort)?;
        }
        on_four.push(ours);
    }
    for (row, clients) in rows.iter().zip(&on_four).skip(1) {
        let (name, document) = (row.short_name, row.gain_percent);
        let ours = 100.0 * (clients / on_four[0] - 1.0);
        let band = (document - 12.0, document + 14.0);
        findings.add(format!("{name} against stock on 4, %"), document, ours, FigureKind::Predicted, band);
    }
    if effort == RunEffort::Full {
        let ours = NumaSetup { scheduler: Scheduler::Ours, ..CACHED };
        let ours = mean_of_combinations(ours, 4, ClientSearch::FULL)?;
        let ours = 100.0 * (ours / on_four[on_four.len() - 1] - 1.0);
        findings.add_ours("adaptive against the best of the document's on 4, clients, %", ours, MATCHES);
    }
    counters(&mut findings)?;
    Ok(findings)
}

/// Tables 2 and 3: the hardware's counters, at the number of clients that each setup serves.
fn counters(findings: &mut Findings) -> Result<(), SimError> {
    type NumaRow = (&'static str, NumaSetup, &'static [u32], u32, [f64; 4], FigureKind);
    let rows: [NumaRow; 3] = [
        ("1 processor", STOCK, &[1], 8_900, [0.38, 21.0, 4.0, 25.0], FigureKind::Fitted),
        ("4 processors", STOCK, &[0, 1, 2, 3], 6_600, [0.30, 67.0, 14.0, 75.0], FigureKind::Fitted),
        ("4 with N-Copy", N_COPY, &[0, 1, 2, 3], 7_200, [0.36, 27.0, 5.0, 65.0], FigureKind::Predicted),
    ];
    for (name, setup, processors, clients, published, kind) in rows {
        let machine = machine(processors)?;
        let results = run(setup, &machine, clients)?;
        let traffic = results.all_traffic();
        let remote = traffic.remote_lines as f64;
        let links = results.link_use_milli.iter().max().copied().unwrap_or(0) as f64 / 10.0;
        let ours = [
            ipc(&machine, &results),
            100.0 * remote / traffic.missed_lines.max(1) as f64,
            remote * 1_024.0 / results.sent_bytes.max(1) as f64,
            links,
        ];
        let names = ["IPC", "remote accesses, %", "remote accesses per KB", "busiest link, %"];
        for ((what, document), ours) in names.into_iter().zip(published).zip(ours) {
            let band = (0.7 * document, 1.4 * document);
            findings.add(format!("{name}: {what}"), document, ours, kind, band);
        }
    }
    Ok(())
}

/// Nodes that reach all memory in two hops, and in one.
pub(super) const SLOW: [usize; 2] = [0, 3];
pub(super) const FAST: [usize; 2] = [1, 2];

/// Maximum number of clients of each processor that the document's best way of injecting serves
/// well.
const MOST_BALANCED: u32 = 7_200;

/// Rows of tables 4 to 6: clients, then slow and fast nodes: good, tolerable, processor.
type Row = (u32, [f64; 3], [f64; 3]);

const ROUND_ROBIN_ROWS: [Row; 4] = [
    (6_800, [99.9, 100.0, 95.0], [99.9, 100.0, 82.0]),
    (7_200, [99.6, 100.0, 100.0], [99.9, 100.0, 85.0]),
    (8_000, [15.4, 90.0, 100.0], [99.9, 100.0, 85.0]),
    (8_800, [8.7, 8.5, 100.0], [99.9, 100.0, 85.0]),
];
const FIXED_ROWS: [Row; 4] = [
    (6_800, [100.0, 100.0, 92.0], [100.0, 100.0, 85.0]),
    (7_200, [99.9, 100.0, 99.0], [100.0, 100.0, 95.0]),
    (8_000, [69.6, 99.0, 100.0], [99.7, 100.0, 100.0]),
    (8_800, [24.4, 85.2, 100.0], [53.4, 97.8, 100.0]),
];
const BALANCED_ROWS: [Row; 4] = [
    (6_800, [99.9, 100.0, 90.0], [100.0, 100.0, 90.0]),
    (7_200, [99.9, 100.0, 98.0], [100.0, 100.0, 98.0]),
    (8_000, [97.8, 100.0, 100.0], [98.9, 100.0, 100.0]),
    (8_800, [25.4, 97.8, 100.0], [54.0, 98.0, 100.0]),
];

fn nodes(effort: RunEffort) -> Result<Findings, SimError> {
    let mut findings = Findings::new();
    let machine = machine(&[0, 1, 2, 3])?;
    let tables = [
        ("in turn", N_COPY, ROUND_ROBIN_ROWS),
        ("fixed", FIXED, FIXED_ROWS),
        ("by load", BALANCED, BALANCED_ROWS),
    ];
    let tables = if effort == RunEffort::Full { &tables[..] } else { &tables[2..] };
    let good = |results: &Results| results.latency.within_permille(GOOD_NS) as f64 / 10.0;
    // Good requests of the last table, the best of the document, at `MOST_BALANCED` clients.
    let mut best = 0.0;
    for &(name, setup, rows) in tables {
        let rows = if effort == RunEffort::Full { &rows[..] } else { &rows[1..2] };
        for &(clients, slow, fast) in rows {
            let results = run(setup, &machine, clients)?;
            if clients == MOST_BALANCED {
                best = good(&results);
            }
            for (class, nodes, document) in [("slow", SLOW, slow), ("fast", FAST, fast)] {
                let ours = of_nodes(&machine, &results, nodes);
                let what = ["good, %", "tolerable, %", "processor, %"];
                for ((what, document), ours) in what.into_iter().zip(document).zip(ours) {
                    let name = format!("{name}, {clients} clients, {class} nodes: {what}");
                    // Near saturation, a few more clients decide between all good and none good. So
                    // shares of requests have no band.
                    let band =
                        if what.starts_with("processor") { (document - 20.0, 101.0) } else { (0.0, 100.0) };
                    findings.add(name, document, ours, FigureKind::Predicted, band);
                }
            }
        }
    }
    let ours = run(NumaSetup { scheduler: Scheduler::Ours, ..BALANCED }, &machine, MOST_BALANCED)?;
    let name = format!("adaptive against by load, {MOST_BALANCED} clients, good, points");
    findings.add_ours(name, good(&ours) - best, MATCHES);
    Ok(findings)
}

/// Shares of good and tolerable requests, and the use of the processors, on some nodes.
pub(super) fn of_nodes(machine: &SimMachine, results: &Results, nodes: [usize; 2]) -> [f64; 3] {
    let mut latency = crate::SimHistogram::default();
    nodes.iter().for_each(|&node| latency.merge(&results.latency_by_node[node]));
    let cores = machine.layout().indices().filter(|&core| nodes.contains(&machine.node(core)));
    let busy: Vec<u64> = cores.map(|core| results.cores[core.0 as usize].busy_ns).collect();
    let all_ns = results.counted_ns * busy.len() as u64;
    [
        latency.within_permille(GOOD_NS) as f64 / 10.0,
        latency.within_permille(TOLERABLE_NS) as f64 / 10.0,
        100.0 * busy.iter().sum::<u64>() as f64 / all_ns as f64,
    ]
}
