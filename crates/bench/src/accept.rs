//! The bench of connections: the cost of a connection for each request, and the cost of a request
//! beside many idle connections.
//!
//! Each server runs on one cpu, the load on the other. In the first part wrk sends `Connection:
//! close`, so each request has a connection of its own. In the second part (`idle`) the bench opens
//! connections, asks once on each, leaves all idle, and measures keep-alive requests beside. The
//! rounds are interleaved. `servers` has the configurations, `report` the tables.

mod idle;
mod report;
mod servers;

use std::time::Duration;

use crate::BenchResult;
use crate::machine::BenchCpus;
use crate::measure::{CpuTime, MachineTime};
use crate::network::BenchNetwork;
use crate::options::BenchOptions;
use crate::peers::PeerSetting;
use crate::peers::process::PeerProcess;
use crate::points::{PointKey, Points};
use crate::probe::ProbeTarget;
use crate::report::BenchReport;
use crate::site::BenchSite;
use crate::stop::StopFlag;
use crate::wrk::{Wrk, WrkLoad, WrkOutcome};
use servers::AcceptServer;

/// Rounds of a full run by default.
pub const ROUNDS: usize = 5;
/// Time under load of each measured part.
pub const DURATION: Duration = Duration::from_secs(2);
/// Connections of every run, the same number as in the benches of servers.
const CONNECTIONS: usize = 64;
/// The file of every request, and its size.
const FILE: (&str, usize) = ("4k.html", 4096);
/// The name of the first part in rows.
const EACH: &str = "a connection for each request";
/// The script's line that makes each request close its connection.
const CLOSE: &str = "wrk.headers[\"Connection\"] = \"close\"\n";

/// Runs the bench.
///
/// # Errors
/// A server does not start or answers wrongly, or the run is interrupted. In every case all started
/// processes are stopped.
pub fn run(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let (site, cpus) = (BenchSite::new(&[FILE])?, BenchCpus::allowed()?);
    let bench = AcceptBench { options, stop, cpus, site };
    let (mut each, mut idle) = (Points::default(), Points::default());
    let servers = AcceptServer::here(options.size)?;
    for round in 0..options.rounds {
        let mut order = servers.clone();
        order.rotate_left(round % servers.len());
        for &server in &order {
            bench.connection_each(server, &mut each)?;
        }
        for &server in order.iter().filter(|server| server.keeps_connections()) {
            idle::sample(&bench, server, &mut idle)?;
        }
    }
    Ok(report::report(options, &each, &idle))
}

/// Runs the smoke size and checks the shape of all results, in a temporary folder; asserts nothing
/// about time.
///
/// # Errors
/// As for [`run()`], and when a number is missing or impossible.
pub fn smoke(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let report = run(options, stop)?;
    let metrics = ["cpu_us", "both_us", "per_s", "few_us", "many_us"];
    report.check(&metrics.map(|metric| (AcceptServer::VermeilUring.name(), metric)))?;
    Ok(report)
}

/// The state shared by all runs.
struct AcceptBench<'a> {
    options: &'a BenchOptions,
    stop: &'a StopFlag,
    cpus: BenchCpus,
    site: BenchSite,
}

/// A started server.
struct Started<'a> {
    bench: &'a AcceptBench<'a>,
    process: PeerProcess,
    setting: PeerSetting<'a>,
}

impl AcceptBench<'_> {
    /// Starts `server`, hands the running server to `measure`, and stops the server.
    fn with(
        &self,
        server: AcceptServer,
        measure: impl FnOnce(&Started<'_>) -> BenchResult<()>,
    ) -> BenchResult<()> {
        self.stop.check()?;
        let (network, address) = (&BenchNetwork::Loopback, BenchNetwork::Loopback.free_address()?);
        let (root, state) = (self.site.root(), self.site.state_folder(server.name())?);
        let setting = PeerSetting { network, address, cpu: self.cpus.server, root: &root, state: &state };
        let process = PeerProcess::start(server.name(), server.command(self.options, setting)?, &state)?;
        process.wait_until_listening(network, address)?;
        let started = Started { bench: self, process, setting };
        measure(&started)?;
        started.process.stop()
    }

    /// A connection for each request.
    fn connection_each(&self, server: AcceptServer, points: &mut Points) -> BenchResult<()> {
        self.with(server, |started| {
            started.load(CLOSE, self.options.duration / 4)?;
            let (before, all) = (CpuTime::of_group(started.process.group())?, MachineTime::now()?);
            let outcome = started.load(CLOSE, self.options.duration)?;
            let spent = CpuTime::of_group(started.process.group())? - before;
            let load = MachineTime::now()?.children_since(&all);
            let per_request = |time: Duration| time.as_secs_f64() * 1e6 / outcome.requests as f64;
            let numbers = [
                ("cpu_us", "us", per_request(spent.run)),
                ("both_us", "us", per_request(spent.run + load)),
                ("per_s", "1/s", outcome.per_second()),
            ];
            eprintln!("{EACH:<30} {:<16} {:>6.1} us", server.name(), per_request(spent.run));
            for (metric, unit, value) in numbers {
                push(points, EACH, server, (metric, unit), value);
            }
            Ok(())
        })
    }
}

impl Started<'_> {
    /// Loads the server for `duration`. `script` is a part of wrk's script.
    fn load(&self, script: &str, duration: Duration) -> BenchResult<WrkOutcome> {
        let wrk = Wrk::with_requests(self.setting.state, self.bench.cpus.client, script)?;
        let load = WrkLoad { connections: CONNECTIONS, duration };
        let target = ProbeTarget::to(&format!("/{}", FILE.0));
        let outcome = wrk.run(self.setting.network, self.setting.address, &target, load, self.bench.stop)?;
        match outcome.problem(200) {
            Some(problem) => Err(self.process.failure(&format!("under load: {problem}"))),
            None => Ok(outcome),
        }
    }
}

fn push(
    points: &mut Points,
    program: &str,
    server: AcceptServer,
    (metric, unit): (&'static str, &'static str),
    value: f64,
) {
    points.push(PointKey { program: program.into(), variant: server.name().into(), metric, unit }, value);
}
