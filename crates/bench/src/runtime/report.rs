//! The report: rows, tables, a chart and a section of the documentation.
//!
//! All parts come from the same summaries, so no two places can differ. The text about how to read
//! the numbers is here, beside the code that makes the numbers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use crate::machine;
use crate::rows::{self, BenchRow, RunOrigin};
use crate::runtime::child::ChildSample;
use crate::runtime::duel;
use crate::runtime::plan::{BenchProgram, RuntimeMetric, RuntimeVariant};
use crate::runtime::run::RuntimeCells;
use crate::runtime::{RuntimeBenchOptions, RuntimeOutputs};
use crate::stats::Summary;
use crate::svg::{Chart, Panel, number};
use crate::table::CellTable;
use crate::{BenchError, BenchResult, markdown};

const HOW_TO_READ: &str = "\
**How to read it.** Every run is a process of its own. All variants of a program do the same work, which the checksums \
confirm. *Of best policy* and *of best peer* are throughputs relative to the entry with the best median, in the same \
round, so 1.00 is the best itself. The spread of each number is *low – high* over interleaved rounds. Among ten \
entries that differ by less than their spread, luck decides which is best. So the best policy and the best peer meet \
the default again, in further pairs of runs; *the default, again* is the throughput of the default relative to theirs. \
*CPU* is the processor time of the process per event, and *switches* the context switches per event. Both exclude the \
clients of a server, and include the search for work in a peer's threads. *p99 delay* is the wait of a short event. \
*Settled* is the time until the throughput comes within a tenth of its final value, in runs of ten times the work. \
*Regret* is the share of its time that a run lost to plans that the run tried. *Observed* is the additional processor \
time of an event with the default observation, over pairs of runs on one cpu, where nothing else differs. *Steal* is \
the cost of a successful steal per color, as time and in the processor's cycles (at the nominal frequency). *Stolen* \
is the expected time of the color's queued events, in both units.

Vermeil's threads are pinned, and each has an I/O driver; the peers' threads are not pinned and have none. The keyed \
stream and the mixed jobs use handlers and colors on Vermeil, and tasks and channels on the peers. The other common \
programs have the same source on all, and run four times in the same process before the measurement. These runs give \
each thread's heap room for new tasks, and policies that learn have learned. Otherwise the kernel's time for clearing \
new memory for a hundred thousand tasks would hide everything else. rayon has no tasks: its jobs cannot wait, and no \
other job can wait for their result. So rayon is no peer; its rows show the cost of a computation without tasks. \
Before each run the bench writes 128 MiB and frees them, because a host takes back memory that its guests leave free, \
and the next run would wait for the memory. *pin* receives all requests in one task, which makes a task of 20 µs for \
each. *server-graph* answers bursts of 256 requests over 64 connections, each in three steps of 3 µs; from the middle \
of the run the second step takes 12 µs, and each eighth burst begins with a job of 30 ms. Runtimes with a thread for \
each core and no stealing are no peers, because the policy `none` shows their behavior.

**What it does not show.** Two virtual cores that share a cache: no placement can bring handlers nearer to each other, \
`per-node` has a single node and steals within it, and few plans are possible. Servers and their clients share the cores. \
Policies that differ by less than the spread do not differ on this machine; machines with more cores are simulated.";

/// A larger share of the machine for other programs spoils a run: as for bench serve.
const OTHERS_SHARE_MAX: f64 = 0.03;

/// The finished bench.
#[derive(Clone, Debug)]
pub struct RuntimeBenchReport {
    origin: RunOrigin,
    parameters: Vec<(&'static str, String)>,
    options: RuntimeBenchOptions,
    summaries: BTreeMap<(BenchProgram, RuntimeVariant), Vec<(RuntimeMetric, Summary)>>,
}

impl RuntimeBenchReport {
    /// Summarizes the `cells` of a bench.
    pub(super) fn new(options: &RuntimeBenchOptions, cells: RuntimeCells) -> Self {
        let origin = RunOrigin {
            bench: "runtime".into(),
            commit: machine::commit(&options.repository),
            machine: machine::describe(),
        };
        let mhz = machine::mhz();
        let summaries = cells.ended.keys().map(|&cell| (cell, summarize(&cells, cell, mhz))).collect();
        let parameters = parameters(options, &origin, &cells, mhz);
        Self { origin, parameters, options: options.clone(), summaries }
    }

    fn cells(&self) -> impl Iterator<Item = (BenchProgram, RuntimeVariant)> + '_ {
        let of = |program: BenchProgram| {
            let variants = self.options.variants.iter().copied();
            variants.filter(move |&variant| program.runs_on(variant)).map(move |variant| (program, variant))
        };
        self.options.programs.iter().copied().flat_map(of)
    }

    fn summary(&self, cell: (BenchProgram, RuntimeVariant), metric: RuntimeMetric) -> Option<Summary> {
        let metrics = self.summaries.get(&cell)?;
        metrics.iter().find(|(name, _)| *name == metric).map(|(_, summary)| *summary)
    }

    /// The rows, in the order of the tables.
    pub fn rows(&self) -> Vec<BenchRow> {
        let row = |cell: (BenchProgram, RuntimeVariant)| {
            let metrics = self.summaries.get(&cell).map(Vec::as_slice).unwrap_or_default();
            metrics.iter().map(move |(metric, summary)| {
                let (name, unit) = metric.name_and_unit();
                self.origin.row(cell.0.name(), cell.1.name(), name, unit, *summary)
            })
        };
        self.cells().flat_map(row).collect()
    }

    /// The parameters and the tables, for a terminal.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.parameters {
            let _infallible = writeln!(text, "{name:<12} {value}");
        }
        let _infallible = write!(text, "\n{}\n{}", self.table().to_text(), self.small_table().to_text());
        text
    }

    /// Replaces the summary, draws the chart and renews the section of the page.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, outputs: &RuntimeOutputs) -> BenchResult<()> {
        rows::write(&outputs.rows, &self.rows())?;
        fs::create_dir_all(&outputs.images).map_err(BenchError::path("create", &outputs.images))?;
        let picture = outputs.images.join("bench-runtime.svg");
        vermeil_io::output::write(&picture, self.chart().to_svg())
            .map_err(BenchError::path("write", &picture))?;
        markdown::replace_section(&outputs.page, "runtime", &self.section())
    }

    /// Checks that all results at `outputs` have the expected shape.
    ///
    /// # Errors
    /// Names the row that is missing or impossible, or the variant that is missing on the page.
    pub(super) fn check(&self, outputs: &RuntimeOutputs) -> BenchResult<()> {
        let rows = rows::read(&outputs.rows)?;
        let page = fs::read_to_string(&outputs.page).map_err(BenchError::path("read", &outputs.page))?;
        for (program, variant) in self.cells() {
            let metric =
                if program.is_compared() { RuntimeMetric::Throughput } else { RuntimeMetric::Switches };
            let is_there = |row: &BenchRow| {
                let named = (&*row.program, &*row.variant) == (program.name(), variant.name());
                let in_order = row.low <= row.median && row.median <= row.high && row.high.is_finite();
                named && row.metric == metric.name_and_unit().0 && in_order && row.low >= 0.0
            };
            if !rows.iter().any(is_there) || !page.contains(variant.name()) {
                let row = format!("{} {}", program.name(), variant.name());
                return Err(BenchError::form("results/runtime.tsv", format!("no sane row for {row}")));
            }
        }
        Ok(())
    }

    fn section(&self) -> String {
        let mut text = String::from(
            "## runtime: every program under every policy, and on others\n\n`cargo xtask bench runtime`\n\n",
        );
        let mut parameters = CellTable::new(2, &["", ""]);
        for (name, value) in &self.parameters {
            parameters.push([(*name).into(), value.clone()]);
        }
        let _infallible = write!(
            text,
            "{}\n![Throughput of each program under each policy and on each peer](img/bench-runtime.svg)\n\n{}\n{}\n\
             {HOW_TO_READ}\n",
            parameters.to_markdown(),
            self.table().to_markdown(),
            self.small_table().to_markdown(),
        );
        text
    }

    fn table(&self) -> CellTable {
        let head = [
            "program",
            "on",
            "events/s",
            "low – high",
            "of best policy",
            "of best peer",
            "the default, again",
            "CPU ns",
            "switches",
            "p99 delay µs",
            "settled ms",
            "regret %",
            "observed %",
        ];
        let mut table = CellTable::new(2, &head);
        for cell in self.cells().filter(|(program, _)| program.is_compared()) {
            let median =
                |metric| self.summary(cell, metric).map(|summary| number(summary.median)).unwrap_or_default();
            let spread = |summary: Summary| format!("{} – {}", number(summary.low), number(summary.high));
            let duel = |summary: Summary| format!("{} ({})", number(summary.median), spread(summary));
            table.push([
                cell.0.name().into(),
                cell.1.name().into(),
                median(RuntimeMetric::Throughput),
                self.summary(cell, RuntimeMetric::Throughput).map(spread).unwrap_or_default(),
                median(RuntimeMetric::OfBestPolicy),
                median(RuntimeMetric::OfBestPeer),
                self.summary(cell, RuntimeMetric::Duel).map(duel).unwrap_or_default(),
                median(RuntimeMetric::CpuNs),
                median(RuntimeMetric::Switches),
                median(RuntimeMetric::DelayP99Us),
                median(RuntimeMetric::SettleMs),
                median(RuntimeMetric::RegretPct),
                median(RuntimeMetric::ObservePct),
            ]);
        }
        table
    }

    fn small_table(&self) -> CellTable {
        let head = [
            "program",
            "on",
            "post ns",
            "steal ns",
            "steal cycles",
            "low – high",
            "stolen µs",
            "stolen cycles",
            "idle µs/s",
            "switches",
        ];
        let mut table = CellTable::new(2, &head);
        for cell in self.cells().filter(|(program, _)| !program.is_compared()) {
            let median = |metric| self.summary(cell, metric).map(|summary| number(summary.median));
            let spread = |summary: Summary| format!("{} – {}", number(summary.low), number(summary.high));
            let post = median(RuntimeMetric::PostRunNs).or_else(|| median(RuntimeMetric::PostRemoteNs));
            table.push([
                cell.0.name().into(),
                cell.1.name().into(),
                post.unwrap_or_default(),
                median(RuntimeMetric::StealNs).unwrap_or_default(),
                median(RuntimeMetric::StealCycles).unwrap_or_default(),
                self.summary(cell, RuntimeMetric::StealCycles).map(spread).unwrap_or_default(),
                median(RuntimeMetric::StolenUs).unwrap_or_default(),
                median(RuntimeMetric::StolenCycles).unwrap_or_default(),
                median(RuntimeMetric::IdleCpuUs).unwrap_or_default(),
                median(RuntimeMetric::Switches).unwrap_or_default(),
            ]);
        }
        table
    }

    fn chart(&self) -> Chart {
        let programs = self.options.programs.iter().copied().filter(|program| program.is_compared());
        let panel = |program: BenchProgram| Panel {
            name: program.name().into(),
            bars: self
                .options
                .variants
                .iter()
                .map(|&variant| self.summary((program, variant), RuntimeMetric::OfBestPolicy))
                .collect(),
        };
        Chart {
            title: "Throughput over that of the policy with the best median, in the same round".into(),
            unit: "higher is better; 1 is the best policy; whiskers: lowest and highest round".into(),
            series: self
                .options
                .variants
                .iter()
                .map(|variant| (variant.name().into(), variant.color()))
                .collect(),
            panels: programs.map(panel).collect(),
        }
    }
}

/// The applicable metrics of one program on one variant.
fn summarize(
    cells: &RuntimeCells,
    (program, variant): (BenchProgram, RuntimeVariant),
    mhz: f64,
) -> Vec<(RuntimeMetric, Summary)> {
    let samples = &cells.ended[&(program, variant)];
    let series = |value: &dyn Fn(&ChildSample) -> Option<f64>| {
        let values: Option<Vec<f64>> = samples.iter().map(value).collect();
        values.and_then(|values| Summary::of(&values))
    };
    let per_event = |total: u64, sample: &ChildSample| total as f64 / sample.events.max(1) as f64;
    let per_steal =
        |total: u64, sample: &ChildSample| (sample.steals > 0).then(|| total as f64 / sample.steals as f64);
    let only = |applies: bool, value: Option<Summary>| value.filter(|_| applies);
    let compared = program.is_compared();
    let metric = |metric| match metric {
        RuntimeMetric::Throughput => only(compared, series(&|sample| Some(throughput(sample)))),
        RuntimeMetric::OfBestPolicy => {
            only(compared, of_best(cells, (program, variant), RuntimeVariant::is_own))
        }
        RuntimeMetric::OfBestPeer => {
            only(compared && variant.is_own(), of_best(cells, (program, variant), RuntimeVariant::is_peer))
        }
        RuntimeMetric::Duel => {
            let pairs = cells.duels.get(&(program, variant))?;
            let ratio = |[own, other]: &[ChildSample; 2]| throughput(own) / throughput(other);
            Summary::of(&pairs.iter().map(ratio).collect::<Vec<_>>())
        }
        RuntimeMetric::CpuNs => only(compared, series(&|sample| Some(per_event(sample.cpu_ns, sample)))),
        RuntimeMetric::Switches => series(&|sample| Some(per_event(sample.switches, sample))),
        RuntimeMetric::DelayP99Us => series(&|sample| Some(sample.delay_p99_ns? as f64 / 1e3)),
        RuntimeMetric::SettleMs => {
            let settling = cells.settling.get(&(program, variant))?;
            let times: Option<Vec<f64>> = settling.iter().map(|sample| sample.settle_ms).collect();
            Summary::of(&times?)
        }
        RuntimeMetric::RegretPct => {
            let lost = |sample: &ChildSample| {
                Some(sample.regret_ns? as f64 * 100.0 / sample.elapsed_ns.max(1) as f64)
            };
            only(compared, series(&lost))
        }
        RuntimeMetric::ObservePct => {
            let pairs = cells.observed.get(&(program, variant))?;
            let more =
                |[off, on]: &[ChildSample; 2]| (on.cpu_ns as f64 / off.cpu_ns.max(1) as f64 - 1.0) * 100.0;
            Summary::of(&pairs.iter().map(more).collect::<Vec<_>>())
        }
        RuntimeMetric::PostRunNs => only(
            program == BenchProgram::PostLocal,
            series(&|sample| Some(per_event(sample.elapsed_ns, sample))),
        ),
        RuntimeMetric::PostRemoteNs => only(
            program == BenchProgram::PostRemote,
            series(&|sample| Some(per_event(sample.elapsed_ns, sample))),
        ),
        RuntimeMetric::StealNs => series(&|sample| per_steal(sample.steal_ns, sample)),
        RuntimeMetric::StealCycles => series(&|sample| Some(per_steal(sample.steal_ns, sample)? * mhz / 1e3)),
        RuntimeMetric::StolenUs => series(&|sample| Some(per_steal(sample.stolen_ns, sample)? / 1e3)),
        RuntimeMetric::StolenCycles => {
            series(&|sample| Some(per_steal(sample.stolen_ns, sample)? * mhz / 1e3))
        }
        RuntimeMetric::IdleCpuUs => {
            let share = |sample: &ChildSample| sample.cpu_ns as f64 * 1e6 / sample.elapsed_ns.max(1) as f64;
            only(program == BenchProgram::Idle, series(&|sample| Some(share(sample))))
        }
    };
    RuntimeMetric::ALL.into_iter().filter_map(|name| Some((name, metric(name)?))).collect()
}

/// Events a second.
pub(super) fn throughput(sample: &ChildSample) -> f64 {
    sample.events as f64 / (sample.elapsed_ns.max(1) as f64 / 1e9)
}

/// Throughputs relative to the variant with the best median among `rivals`, in the same round;
/// empty if no rival ran.
fn of_best(
    cells: &RuntimeCells,
    (program, variant): (BenchProgram, RuntimeVariant),
    rivals: fn(RuntimeVariant) -> bool,
) -> Option<Summary> {
    let best = &cells.ended[&(program, duel::best_of(cells, program, rivals)?)];
    let throughputs = |samples: &[ChildSample]| samples.iter().map(throughput).collect::<Vec<_>>();
    Summary::of_ratios(&throughputs(&cells.ended[&(program, variant)]), &throughputs(best))
}

fn parameters(
    options: &RuntimeBenchOptions,
    origin: &RunOrigin,
    cells: &RuntimeCells,
    mhz: f64,
) -> Vec<(&'static str, String)> {
    let size = options.size.note();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    vec![
        ("commit", origin.commit.clone()),
        ("machine", origin.machine.clone()),
        ("rounds", format!("{}{size}", options.rounds)),
        ("threads", format!("{cpus}, one for each cpu")),
        ("work", format!("{:.0} rounds of mixing in a microsecond", cells.pace.rounds_per_us)),
        ("frequency", format!("{mhz:.0} MHz, for cycles")),
        ("others", others(cells.others_share)),
    ]
}

/// The share of the machine for other programs, with a warning if the share spoils the numbers.
fn others(share: f64) -> String {
    let warning = if share > OTHERS_SHARE_MAX { ": TOO BUSY, distrust every number here" } else { "" };
    format!("{:.1} % of the machine{warning}", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vermeil_programs::kernel::MixingPace;

    fn sample(events: u64) -> ChildSample {
        let (steals, steal_ns, stolen_ns) = (2, 1_000, 30_000);
        ChildSample {
            events,
            elapsed_ns: 1_000_000_000,
            steals,
            steal_ns,
            stolen_ns,
            ..ChildSample::default()
        }
    }

    fn median(cells: &RuntimeCells, variant: RuntimeVariant, metric: RuntimeMetric) -> Option<f64> {
        let metrics = summarize(cells, (BenchProgram::Spawn, variant), 3000.0);
        metrics.into_iter().find(|(name, _)| *name == metric).map(|(_, summary)| summary.median)
    }

    #[test]
    fn ratios_are_to_the_best_in_the_same_round() {
        let (one, two) = (RuntimeVariant::Policy("adaptive"), RuntimeVariant::Policy("none"));
        let cell = |variant, rounds: [u64; 2]| ((BenchProgram::Spawn, variant), rounds.map(sample).to_vec());
        let ended =
            [cell(one, [100, 50]), cell(two, [80, 100]), cell(RuntimeVariant::Tokio, [200, 100])].into();
        let pace = MixingPace { rounds_per_us: 1.0 };
        let pair =
            [ChildSample { cpu_ns: 1_000, ..sample(100) }, ChildSample { cpu_ns: 1_010, ..sample(100) }];
        let observed = [((BenchProgram::Spawn, one), vec![pair])].into();
        let duels = [((BenchProgram::Spawn, two), vec![[sample(99), sample(100)]])].into();
        let cells =
            RuntimeCells { ended, settling: BTreeMap::new(), observed, duels, pace, others_share: 0.0 };
        assert_eq!(median(&cells, one, RuntimeMetric::OfBestPolicy), Some(0.875));
        assert_eq!(median(&cells, two, RuntimeMetric::Duel), Some(0.99));
        assert_eq!(median(&cells, one, RuntimeMetric::Duel), None);
        assert_eq!(median(&cells, one, RuntimeMetric::OfBestPeer), Some(0.5));
        assert_eq!(median(&cells, RuntimeVariant::Tokio, RuntimeMetric::OfBestPolicy), Some(1.75));
        assert_eq!(median(&cells, RuntimeVariant::Tokio, RuntimeMetric::OfBestPeer), None);
        assert_eq!(median(&cells, one, RuntimeMetric::StealNs), Some(500.0));
        assert_eq!(median(&cells, one, RuntimeMetric::StealCycles), Some(1500.0));
        assert_eq!(median(&cells, one, RuntimeMetric::StolenUs), Some(15.0));
        assert_eq!(median(&cells, one, RuntimeMetric::StolenCycles), Some(45_000.0));
        assert_eq!(median(&cells, one, RuntimeMetric::SettleMs), None);
        let observed = median(&cells, one, RuntimeMetric::ObservePct).expect("there is a pair");
        assert!((observed - 1.0).abs() < 1e-9, "{observed}");
        assert_eq!(median(&cells, two, RuntimeMetric::ObservePct), None);
    }

    #[test]
    fn a_busy_machine_is_called_busy() {
        assert_eq!(others(0.01), "1.0 % of the machine");
        assert!(others(0.5).contains("TOO BUSY"));
    }
}
