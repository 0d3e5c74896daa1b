//! The bench of one axum program on Vermeil and on tokio: two cores, and connections that were all
//! accepted on one of them.
//!
//! Three works. *Skewed*: kept connections whose requests compute 200 µs each, in a closed loop.
//! *Mixed*: requests of 7 µs, beside requests of 2 ms of other clients, both at steady rates.
//! *Crowded*: the same lengths in closed loops, so that requests of 2 ms always wait. Of the last
//! two, only the short requests count. The loads share the cpus with the server. The program is the
//! binary `vermeil-app`; a run of it on one core shows the gain of the second.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use vermeil_load::report::Record;
use vermeil_programs::kernel::MixingPace;

use crate::load::only;
use crate::load::steady::{OtherClients, record_of};
use crate::machine::BenchCpus;
use crate::measure::CpuTime;
use crate::network::BenchNetwork;
use crate::options::BenchOptions;
use crate::peers::process::PeerProcess;
use crate::points::{PointKey, Points};
use crate::report::BenchReport;
use crate::site::BenchSite;
use crate::size::BenchSize;
use crate::stop::StopFlag;
use crate::svg::number;
use crate::table::CellTable;
use crate::{BenchError, BenchResult};

/// Rounds of a full run by default: the smallest number with a median and a spread.
pub const ROUNDS: usize = 5;
/// Time under load of each run.
pub const DURATION: Duration = Duration::from_secs(4);

/// Connections of the skewed work, and of the short requests.
const CONNECTIONS: usize = 64;
/// Microseconds of a request of the skewed work.
const SKEWED_US: u32 = 200;
/// Microseconds of a short request.
const SHORT_US: u32 = 7;
/// Short requests a second: a small part of two cpus, so waits come from long requests.
const SHORT_PER_S: u32 = 2_000;
/// Microseconds of a long request.
const LONG_US: u32 = 2_000;
/// Long requests a second: four fifths of a cpu.
const LONG_PER_S: u32 = 400;
/// Connections of the long requests.
const LONG_CONNECTIONS: usize = 16;
/// Connections with short and with long requests of the crowded work: four long requests a core.
const CROWDED_SHORT: usize = 32;
const CROWDED_LONG: usize = 8;

/// A runtime of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AppServer {
    /// Vermeil's default policy.
    Adaptive,
    /// The same on one core.
    OneCore,
    /// tokio.
    Tokio,
}

impl AppServer {
    const ALL: [Self; 3] = [Self::Adaptive, Self::OneCore, Self::Tokio];

    fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "vermeil",
            Self::OneCore => "vermeil, 1 core",
            Self::Tokio => "tokio",
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Adaptive => &["vermeil"],
            Self::OneCore => &["vermeil", "--cores", "1"],
            Self::Tokio => &["tokio"],
        }
    }
}

/// The work of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AppWork {
    /// Requests of one length in a closed loop.
    Skewed,
    /// Short requests beside long ones, both at steady rates.
    Mixed,
    /// The same in closed loops.
    Crowded,
}

impl AppWork {
    const ALL: [Self; 3] = [Self::Skewed, Self::Mixed, Self::Crowded];

    fn name(self) -> &'static str {
        match self {
            Self::Skewed => "skewed",
            Self::Mixed => "mixed",
            Self::Crowded => "crowded",
        }
    }
}

struct AppBench<'a> {
    options: &'a BenchOptions,
    cpus: BenchCpus,
    pace: MixingPace,
    site: BenchSite,
}

/// Runs the bench.
///
/// # Errors
/// A server does not start, a request fails, or the run is interrupted. In every case all started
/// processes are stopped.
pub fn run(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let pace = match options.size {
        BenchSize::Full => MixingPace::measure(),
        // Work of next to no length.
        BenchSize::Smoke => MixingPace { rounds_per_us: 1.0 },
    };
    let bench = AppBench { options, cpus: BenchCpus::allowed()?, pace, site: BenchSite::new(&[])? };
    let mut points = Points::default();
    for work in AppWork::ALL {
        for round in 0..options.rounds {
            let mut order = AppServer::ALL;
            order.rotate_left(round % AppServer::ALL.len());
            for server in order {
                stop.check()?;
                bench.sample(work, server, &mut points)?;
            }
        }
    }
    Ok(report(options, &points))
}

/// Runs the smoke size and checks the shape of all results; asserts nothing about time.
///
/// # Errors
/// As for [`run()`], and when a number is missing or impossible.
pub fn smoke(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let report = run(options, stop)?;
    report.check(&AppServer::ALL.map(|server| (server.name(), "p99_us")))?;
    report.check(&AppServer::ALL.map(|server| (server.name(), "per_s")))?;
    Ok(report)
}

impl AppBench<'_> {
    fn sample(&self, work: AppWork, server: AppServer, points: &mut Points) -> BenchResult<()> {
        let address = BenchNetwork::Loopback.free_address()?;
        let mut command = Command::new(self.options.binary("vermeil-app"));
        command.args(server.arguments()).args(["--listen", &address.to_string()]);
        command.args(["--rounds-per-us", &self.pace.rounds_per_us.to_string()]);
        let process = PeerProcess::start(server.name(), command, &self.site.state_folder("app")?)?;
        process.wait_until_listening(&BenchNetwork::Loopback, address)?;
        let before = CpuTime::of_group(process.group())?;
        let others = self.others(work, address).map(|mut load| OtherClients::begin(&mut load)).transpose()?;
        let record = checked(server, record_of(&mut self.counted(work, address))?)?;
        if let Some(others) = others {
            checked(server, others.end()?)?;
        }
        let cpu = (CpuTime::of_group(process.group())? - before).run;
        let mut push = |metric, unit, value| {
            let key = PointKey { program: work.name().into(), variant: server.name().into(), metric, unit };
            points.push(key, value);
        };
        let per_s = record.good as f64 / (record.window_ns as f64 / 1e9);
        push("per_s", "1/s", per_s);
        push("cpu_s", "s", cpu.as_secs_f64());
        let mut said = format!("{:<8} {:<14} {per_s:>8.0}/s", work.name(), server.name());
        for (metric, percent) in [("p50_us", 50.0), ("p99_us", 99.0)] {
            if let Some(time) = record.response.percentile(percent) {
                let us = time.as_secs_f64() * 1e6;
                said += &format!("  p{percent} {us:.0} us");
                push(metric, "us", us);
            }
        }
        eprintln!("{said}");
        process.stop()
    }

    fn load(&self, cpu: usize, connections: usize) -> Command {
        let mut command = Command::new(&self.options.vermeil);
        command.args(["load", "--quiet", "--json", "-", "--cores", &only(cpu)]);
        command.args(["-c", &connections.to_string()]);
        command
    }

    /// The load whose requests count.
    fn counted(&self, work: AppWork, address: SocketAddr) -> Command {
        let (connections, us) = match work {
            AppWork::Skewed => (CONNECTIONS, SKEWED_US),
            AppWork::Mixed => (CONNECTIONS, SHORT_US),
            AppWork::Crowded => (CROWDED_SHORT, SHORT_US),
        };
        let mut command = self.load(self.cpus.client, connections);
        if work == AppWork::Mixed {
            command.args(["--rate", &SHORT_PER_S.to_string()]);
        }
        let ms = self.options.duration.as_millis();
        command.args(["--warm-up", &format!("{}ms", ms / 4), "-d", &format!("{ms}ms")]);
        command.arg(url(address, us));
        command
    }

    /// The load of long requests beside it.
    fn others(&self, work: AppWork, address: SocketAddr) -> Option<Command> {
        let (connections, rate) = match work {
            AppWork::Skewed => return None,
            AppWork::Mixed => (LONG_CONNECTIONS, Some(format!("constant:{LONG_PER_S}"))),
            AppWork::Crowded => (CROWDED_LONG, None),
        };
        let mut command = self.load(self.cpus.server, connections);
        if let Some(rate) = rate {
            command.args(["--rate", &rate]);
        }
        command.args(["-d", "10m"]).arg(url(address, LONG_US));
        Some(command)
    }
}

fn url(address: SocketAddr, us: u32) -> String {
    format!("http://{address}/{us}")
}

fn checked(server: AppServer, record: Record) -> BenchResult<Record> {
    if record.failed > 0 || record.good == 0 {
        let problem = format!("{} good, {} failed: {:?}", record.good, record.failed, record.faults);
        return Err(BenchError::peer(server.name(), problem));
    }
    Ok(record)
}

const HOW_TO_READ: &str = "\
**How to read it.** The program is an axum router on hyper, the same on both runtimes. *Skewed*: requests of 200 µs of \
cpu time over 64 kept connections in a closed loop; Vermeil accepts all of them on one core. *Mixed*: requests of 7 µs \
that arrive at a steady rate over 64 kept connections, beside requests of 2 ms that take four fifths of a cpu; times \
count from the planned start. *Crowded*: 32 connections with requests of 7 µs and 8 with requests of 2 ms, both in \
closed loops. Of *mixed* and *crowded* the short requests count. *Vermeil ×* divides Vermeil by the row, within a round: \
more is better for rates, less for times. The loads share both cpus with the server, so a part of each time is a load's \
wait for a cpu.";

fn report(options: &BenchOptions, points: &Points) -> BenchReport {
    let parameters = vec![
        (
            "load",
            format!(
                "vermeil load, {:?} a run{}; mixed: {SHORT_PER_S} short and {LONG_PER_S} long requests a second",
                options.duration,
                options.size.note()
            ),
        ),
        ("rounds", format!("{}, interleaved", options.rounds)),
        ("cpus", "two, for server and load".into()),
    ];
    BenchReport::new("app", "one program on Vermeil and on tokio", &options.repository, parameters)
        .with_points(points)
        .with_table(table(points))
        .with_how_to_read(HOW_TO_READ)
}

fn table(points: &Points) -> CellTable {
    let head = [
        "work",
        "runtime",
        "per second",
        "low – high",
        "vermeil ×",
        "p50 µs",
        "p99 µs",
        "low – high",
        "vermeil ×",
    ];
    let mut table = CellTable::new(2, &head);
    for (work, server) in points.cells() {
        let ours = |metric| {
            let ratio = points.ratio(work, (AppServer::Adaptive.name(), server), metric);
            let ratio = ratio.filter(|_| server != AppServer::Adaptive.name());
            ratio.map(|ratio| number(ratio.median)).unwrap_or_default()
        };
        table.push([
            work.into(),
            server.into(),
            points.median(work, server, "per_s"),
            points.spread(work, server, "per_s"),
            ours("per_s"),
            points.median(work, server, "p50_us"),
            points.median(work, server, "p99_us"),
            points.spread(work, server, "p99_us"),
            ours("p99_us"),
        ]);
    }
    table
}
