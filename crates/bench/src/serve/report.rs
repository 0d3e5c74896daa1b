//! The report: rows, a table, a chart and a section of the documentation.
//!
//! All parts come from the same summaries, so no two places can differ. The text about how to read
//! the numbers is here, beside the code that makes the numbers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use crate::machine;
use crate::peers::find_program;
use crate::rows::{self, BenchRow, RunOrigin};
use crate::serve::plan::{PacketWay, ServeMetric, ServeProgram, ServedBy};
use crate::serve::run::{ServeBench, ServeCells, ServeSample};
use crate::serve::tune::ways_of;
use crate::serve::{CONNECTIONS, ServeOutputs};
use crate::stats::{Summary, lowest};
use crate::svg::{Chart, Panel, number};
use crate::table::CellTable;
use crate::{BenchError, BenchResult, markdown};

const HOW_TO_READ: &str = "\
**How to read it.** *CPU* is the run time of the server's whole process group, user and system, per response that the \
load received. So *CPU* is the cost of a request, at any rate of requests. *Floor* is a server that answers every \
receive with one canned send of as many bytes. The floor spends its time in the kernel's TCP, so *× floor* shows how \
much of a server's cost is its own. Of the two floors, *× floor* compares with the floor that has the lower median. *× nginx* is the cost relative to nginx's. Both ratios are computed within a round \
and then summarized. *Rounds* are interleaved and their order rotates. Every number is the median; *low – high* are \
the extremes. Each run starts a fresh server on one core. The bench checks the server before the run (status and size \
of an answer) and after the run (no errors, the right number of bytes). *Both* adds the cost of the load. Over \
loopback, a server that sends in small steps leaves much of its sending to the load's core, when the acknowledgements \
come. For large files only the sum shows the cost of a transfer. Requests per second and latencies come from a closed \
loop on the other core. If the load is the limit, these numbers say little about the server.

In the rows *+rx*, load and server are in separate network namespaces, joined by a pair of virtual cards. The core of \
each side handles the received packets of that side, as between two machines. There *CPU* is the time in which the \
server's core was not idle, because the kernel charges most of the receive work to no process.

**What it does not show.** Two virtual cores of one machine: no network card, no interrupts, no distance between \
memory nodes, no second server core for scaling. On loopback the kernel delivers a packet on the core that sent it. \
Therefore a part of the server's receive work is charged to the load (the *+rx* rows correct this), and the kernel \
copies data that a card would fetch. Other guests of the host share the cores: compare within a round, and distrust \
small differences between runs.";

/// A larger share of the machine for other programs spoils a run, because other programs evict the
/// caches and take the load's cpu. With two cpus, 3 % is one program busy for a sixteenth of the
/// time.
const OTHERS_SHARE_MAX: f64 = 0.03;

/// The finished bench.
#[derive(Clone, Debug)]
pub struct ServeBenchReport {
    origin: RunOrigin,
    parameters: Vec<(&'static str, String)>,
    servers: Vec<ServedBy>,
    summaries: BTreeMap<(ServeProgram, ServedBy), Vec<(ServeMetric, Summary)>>,
    user_shares: BTreeMap<(ServeProgram, ServedBy), f64>,
}

impl ServeBenchReport {
    /// Summarizes the `cells` of a bench.
    pub(super) fn new(bench: ServeBench<'_>, cells: ServeCells) -> Self {
        let origin = RunOrigin {
            bench: "serve".into(),
            commit: machine::commit(&bench.options.repository),
            machine: machine::describe(),
        };
        let mut summaries = BTreeMap::new();
        let mut user_shares = BTreeMap::new();
        for (&(program, server), samples) in &cells {
            summaries.insert((program, server), summarize(&cells, program, samples));
            let shares: Vec<f64> = samples.iter().filter_map(|sample| sample.user_share).collect();
            if let Some(share) = Summary::of(&shares) {
                user_shares.insert((program, server), share.median);
            }
        }
        let parameters = parameters(&bench, &origin, &cells);
        Self { origin, parameters, servers: bench.servers, summaries, user_shares }
    }

    /// The pairs of program and server that must have rows.
    pub fn expected(&self) -> impl Iterator<Item = (ServeProgram, ServedBy)> + '_ {
        let mut programs = ServeProgram::over(PacketWay::Loopback);
        if self.summaries.keys().any(|(program, _)| program.way == PacketWay::OwnReceive) {
            programs.extend(ServeProgram::over(PacketWay::OwnReceive));
        }
        programs.into_iter().flat_map(|program| self.servers.iter().map(move |&server| (program, server)))
    }

    /// Whether `server` took part.
    pub fn has(&self, server: ServedBy) -> bool {
        self.servers.contains(&server)
    }

    /// Whether a floor took part.
    pub fn has_floor(&self) -> bool {
        self.servers.iter().any(|server| server.is_floor())
    }

    /// The summary of a metric.
    pub fn summary(&self, program: ServeProgram, server: ServedBy, metric: ServeMetric) -> Option<Summary> {
        let metrics = self.summaries.get(&(program, server))?;
        metrics.iter().find(|(name, _)| *name == metric).map(|(_, summary)| *summary)
    }

    /// The rows, in the order of the tables.
    pub fn rows(&self) -> Vec<BenchRow> {
        let row = |(program, server): (ServeProgram, ServedBy)| {
            let metrics = self.summaries.get(&(program, server)).map(Vec::as_slice).unwrap_or_default();
            metrics.iter().map(move |(metric, summary)| {
                self.origin.row(&program.name(), server.name(), metric.name(), metric.unit(), *summary)
            })
        };
        self.expected().flat_map(row).collect()
    }

    /// The parameters and the table, for a terminal.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.parameters {
            let _infallible = writeln!(text, "{name:<12} {value}");
        }
        let _infallible = write!(text, "\n{}", self.table().to_text());
        text
    }

    /// Replaces the summary, draws the chart and renews the section of the page.
    pub fn write(&self, outputs: &ServeOutputs) -> BenchResult<()> {
        rows::write(&outputs.rows, &self.rows())?;
        fs::create_dir_all(&outputs.images).map_err(BenchError::path("create", &outputs.images))?;
        let picture = outputs.images.join("bench-serve.svg");
        vermeil_io::output::write(&picture, self.chart().to_svg())
            .map_err(BenchError::path("write", &picture))?;
        markdown::replace_section(&outputs.page, "serve", &self.section())
    }

    fn section(&self) -> String {
        let mut text = String::from("## serve: the cost of one request\n\n`cargo xtask bench serve`\n\n");
        let mut parameters = CellTable::new(2, &["", ""]);
        for (name, value) in &self.parameters {
            parameters.push([(*name).into(), value.clone()]);
        }
        let _infallible = write!(
            text,
            "{}\n![CPU time per request of each server](img/bench-serve.svg)\n\n{}\n{HOW_TO_READ}\n",
            parameters.to_markdown(),
            self.table().to_markdown(),
        );
        text
    }

    fn table(&self) -> CellTable {
        let head = [
            "request",
            "server",
            "CPU µs",
            "low – high",
            "user",
            "req/s",
            "p50 µs",
            "p99 µs",
            "× floor",
            "× nginx",
            "both µs",
            "× nginx",
        ];
        let mut table = CellTable::new(2, &head);
        for (program, server) in self.expected() {
            let get = |metric| self.summary(program, server, metric);
            let median = |metric| get(metric).map(|summary| number(summary.median)).unwrap_or_default();
            let spread = |summary: Summary| format!("{} – {}", number(summary.low), number(summary.high));
            let user =
                self.user_shares.get(&(program, server)).map(|share| format!("{:.0} %", share * 100.0));
            table.push([
                program.name(),
                server.name().into(),
                median(ServeMetric::CpuUs),
                get(ServeMetric::CpuUs).map(spread).unwrap_or_default(),
                user.unwrap_or_default(),
                median(ServeMetric::PerS),
                median(ServeMetric::P50Us),
                median(ServeMetric::P99Us),
                median(ServeMetric::RatioFloor),
                median(ServeMetric::RatioNginx),
                median(ServeMetric::BothUs),
                median(ServeMetric::BothRatioNginx),
            ]);
        }
        table
    }

    fn chart(&self) -> Chart {
        let mut programs: Vec<ServeProgram> = self.expected().map(|(program, _)| program).collect();
        programs.dedup();
        let bar = |program, server| self.summary(program, server, ServeMetric::CpuUs);
        let panel = |program: ServeProgram| Panel {
            name: program.name(),
            bars: self.servers.iter().map(|&server| bar(program, server)).collect(),
        };
        Chart {
            title: format!("CPU time per request, one core, {CONNECTIONS} keep-alive connections"),
            unit: "µs per request, lower is better; every panel has its own scale; whiskers: lowest and highest round"
                .into(),
            series: self.servers.iter().map(|server| (server.name().into(), server.color())).collect(),
            panels: programs.into_iter().map(panel).collect(),
        }
    }
}

/// The metrics of one program on one server; ratios only if their reference was measured.
fn summarize(
    cells: &ServeCells,
    program: ServeProgram,
    samples: &[ServeSample],
) -> Vec<(ServeMetric, Summary)> {
    let series = |value: fn(&ServeSample) -> f64| samples.iter().map(value).collect::<Vec<f64>>();
    let of = |server: ServedBy, value: fn(&ServeSample) -> f64| {
        let samples = cells.get(&(program, server))?;
        Some(samples.iter().map(value).collect::<Vec<f64>>())
    };
    let cpu_of = |server| of(server, |sample| sample.cpu_us);
    let both: fn(&ServeSample) -> f64 = |sample| sample.both_us;
    let cpu = series(|sample| sample.cpu_us);
    let floors: Vec<Vec<f64>> =
        ServedBy::ALL.into_iter().filter(|server| server.is_floor()).filter_map(cpu_of).collect();
    let floor = lowest(floors.iter().map(Vec::as_slice));
    let metric = |metric| match metric {
        ServeMetric::CpuUs => Summary::of(&cpu),
        ServeMetric::BothUs => Summary::of(&series(both)),
        ServeMetric::PerS => Summary::of(&series(|sample| sample.per_s)),
        ServeMetric::P50Us => Summary::of(&series(|sample| sample.p50_us)),
        ServeMetric::P99Us => Summary::of(&series(|sample| sample.p99_us)),
        ServeMetric::RatioFloor => floor.and_then(|floor| Summary::of_ratios(&cpu, floor)),
        ServeMetric::RatioNginx => cpu_of(ServedBy::Nginx).and_then(|nginx| Summary::of_ratios(&cpu, &nginx)),
        ServeMetric::BothRatioNginx => {
            of(ServedBy::Nginx, both).and_then(|nginx| Summary::of_ratios(&series(both), &nginx))
        }
    };
    ServeMetric::ALL.into_iter().filter_map(|name| Some((name, metric(name)?))).collect()
}

fn parameters(bench: &ServeBench<'_>, origin: &RunOrigin, cells: &ServeCells) -> Vec<(&'static str, String)> {
    let version = |server: ServedBy, program: &str, argument: &str| {
        let program = find_program(program).filter(|_| bench.servers.contains(&server))?;
        machine::version(&program, argument)
    };
    let versions = [
        version(ServedBy::Nginx, "nginx", "-v").map(|said| said.replace("nginx version: ", "")),
        version(ServedBy::Apache, "apache2", "-v").map(|said| said.replace("Server version: ", "")),
        find_program("wrk").and_then(|wrk| machine::version(&wrk, "-v")).map(|said| first_words(&said, 2)),
    ];
    let harness: Vec<f64> = cells.values().flatten().map(|sample| sample.harness_share).collect();
    let harness = Summary::of(&harness).map_or(0.0, |summary| summary.median * 100.0);
    let size = bench.options.size.note();
    let mut parameters = vec![
        ("commit", origin.commit.clone()),
        ("machine", origin.machine.clone()),
        ("build", bench.options.build.into()),
        ("versions", versions.into_iter().flatten().collect::<Vec<_>>().join(", ")),
        (
            "load",
            format!(
                "{CONNECTIONS} keep-alive connections, closed loop, {:?} a run{size}",
                bench.options.duration
            ),
        ),
        ("rounds", bench.options.rounds.to_string()),
        ("cpus", format!("server on cpu {}, load on cpu {}", bench.cpus.server, bench.cpus.client)),
        ("floor size", format!("as many bytes as {}", bench.reference.map_or("nothing", ServedBy::name))),
        ("harness", format!("{harness:.2} % of one cpu during a run")),
        ("others", others(cells)),
    ];
    let tuned = bench.servers.iter().filter(|&&server| !ways_of(server).is_empty());
    parameters.extend(tuned.map(|&server| (server.name(), bench.tuning.describe(server))));
    parameters
}

/// The share of the machine for other programs, with a warning if the share spoils the numbers.
fn others(cells: &ServeCells) -> String {
    let shares: Vec<f64> = cells.values().flatten().filter_map(|sample| sample.others_share).collect();
    let Some(share) = Summary::of(&shares) else { return "not measured".into() };
    let warning = if share.median > OTHERS_SHARE_MAX { ": TOO BUSY, distrust every number here" } else { "" };
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    format!("{} % of the machine (at most {} %){warning}", percent(share.median), percent(share.high))
}

fn first_words(text: &str, count: usize) -> String {
    text.split_whitespace().take(count).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::vermeil::VermeilIo;
    use crate::serve::plan::RequestKind;

    fn sample(cpu_us: f64) -> ServeSample {
        let (per_s, p50_us, p99_us) = (1e6 / cpu_us, 2.0, 3.0);
        ServeSample {
            cpu_us,
            both_us: 2.0 * cpu_us,
            per_s,
            p50_us,
            p99_us,
            user_share: None,
            harness_share: 0.0,
            others_share: Some(0.01),
        }
    }

    const PROGRAM: ServeProgram = ServeProgram { way: PacketWay::Loopback, request: RequestKind::OneK };

    fn cells(series: &[(ServedBy, [f64; 2])]) -> ServeCells {
        let cell =
            |(server, rounds): &(ServedBy, [f64; 2])| ((PROGRAM, *server), rounds.map(sample).to_vec());
        series.iter().map(cell).collect()
    }

    fn median(cells: &ServeCells, server: ServedBy, metric: ServeMetric) -> Option<f64> {
        let metrics = summarize(cells, PROGRAM, &cells[&(PROGRAM, server)]);
        metrics.into_iter().find(|(name, _)| *name == metric).map(|(_, summary)| summary.median)
    }

    #[test]
    fn ratios_are_to_lower_floor_and_to_nginx_of_same_round() {
        let vermeil = ServedBy::Vermeil(VermeilIo::Uring);
        let cells = cells(&[
            (vermeil, [6.0, 12.0]),
            (ServedBy::Nginx, [12.0, 24.0]),
            (ServedBy::Floor(VermeilIo::Epoll), [4.0, 10.0]),
            (ServedBy::Floor(VermeilIo::Uring), [5.0, 8.0]),
        ]);
        assert_eq!(median(&cells, vermeil, ServeMetric::RatioNginx), Some(0.5));
        assert_eq!(median(&cells, vermeil, ServeMetric::RatioFloor), Some(1.35));
        assert_eq!(median(&cells, vermeil, ServeMetric::CpuUs), Some(9.0));
    }

    #[test]
    fn a_ratio_to_a_server_that_did_not_run_is_left_out() {
        let cells = cells(&[(ServedBy::Apache, [30.0, 31.0])]);
        assert_eq!(median(&cells, ServedBy::Apache, ServeMetric::RatioNginx), None);
        assert_eq!(median(&cells, ServedBy::Apache, ServeMetric::RatioFloor), None);
        assert_eq!(median(&cells, ServedBy::Apache, ServeMetric::P99Us), Some(3.0));
    }

    #[test]
    fn a_busy_machine_is_called_busy() {
        let mut cells = cells(&[(ServedBy::Nginx, [8.0, 8.0])]);
        assert!(!others(&cells).contains("BUSY"));
        cells.values_mut().flatten().for_each(|sample| sample.others_share = Some(0.5));
        assert!(others(&cells).contains("BUSY"));
    }
}
