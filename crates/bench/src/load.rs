//! The bench of the load injector: the cost of a request beside wrk, ab, hey and h2load; the
//! agreement of their results; the number of users that the injector holds.
//!
//! Three parts. *Cost*: each injector alone on a cpu loads the same nginx on the other cpu, as fast
//! as possible, over HTTP/1.1 and, if the injector can, over HTTP/2. *Agreement*: the same against
//! a back end that answers after 10 ms, so that all injectors must measure the same rate and the
//! same times. *Users*: thousands of users with think times on one core, their memory and the
//! lateness of their timers. Rounds are interleaved and their order rotates. The report is in
//! `report`.

pub mod injectors;
mod report;
pub(crate) mod steady;
pub mod users;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use vermeil_load::report::Record;

use crate::machine::BenchCpus;
use crate::network::BenchNetwork;
use crate::options::BenchOptions;
use crate::peers::nginx::{self, NginxSending};
use crate::peers::process::PeerProcess;
use crate::peers::{PeerSetting, is_here};
use crate::points::{PointKey, Points};
use crate::probe::ProbeTarget;
use crate::report::BenchReport;
use crate::site::BenchSite;
use crate::size::BenchSize;
use crate::stop::StopFlag;
use crate::wrk::{Wrk, WrkLoad};
use crate::{BenchError, BenchResult};
use injectors::{BenchInjector, InjectorPlace, Speech};

/// Rounds of a full run by default: the smallest number with a median and a spread.
pub const ROUNDS: usize = 5;
/// Time under load of each run: cpu time counts from the start of the process, and a long run makes
/// the cost of the start relatively small.
pub const DURATION: Duration = Duration::from_secs(4);
/// Connections of every run, the same number as in the benches of servers.
pub const CONNECTIONS: usize = 64;
/// Least time under load of each run of the second part, where the server's waiting sets the pace.
/// At 6,400 requests a second of some 13 us each, the 10 ms or so of the start are under 2 % of the
/// cpu time. (More connections would need less time, but hey would then need more than one cpu.)
pub const WAITING: Duration = Duration::from_secs(8);
/// Concurrent requests on an HTTP/2 connection: a parameter of the load, the same for all
/// injectors.
const STREAMS: usize = 10;
/// The requested file and its size.
const FILE: (&str, usize) = ("1k.html", 1024);
/// The name of the second part in rows.
const AGREEMENT: &str = "10 ms";
/// The delay of each answer of the second part's back end. Measured: an answer of two busy cores
/// takes 0.6 ms (the first part of the bench), so the server's waiting sets the pace.
const DELAY: Duration = Duration::from_millis(10);

/// Runs the bench.
///
/// # Errors
/// A server or an injector cannot be run or reports errors, or the run is interrupted. In every
/// case all started processes are stopped.
pub fn run(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let site = BenchSite::new(&[FILE])?;
    let cpus = BenchCpus::allowed()?;
    let bench = LoadBench { options, cpus, site: &site, stop };
    let mut points = Points::default();
    bench.cost(&mut points)?;
    bench.agreement(&mut points)?;
    users::run(&bench, &mut points)?;
    Ok(report::report(options, &points))
}

/// Runs the smoke size and checks the shape of all results, in a temporary folder; asserts nothing
/// about time.
///
/// # Errors
/// As for [`run()`], and when a number is missing or impossible.
pub fn smoke(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let report = run(options, stop)?;
    let here = injectors::here(options.size)?;
    let expected: Vec<_> = here.iter().map(|injector| (injector.name(), "per_cpu_s")).collect();
    report.check(&expected)?;
    Ok(report)
}

/// The state shared by all parts.
pub(crate) struct LoadBench<'a> {
    pub(crate) options: &'a BenchOptions,
    pub(crate) cpus: BenchCpus,
    pub(crate) site: &'a BenchSite,
    pub(crate) stop: &'a StopFlag,
}

impl LoadBench<'_> {
    /// At full speed against nginx.
    fn cost(&self, points: &mut Points) -> BenchResult<()> {
        if !is_here(self.options.size, ("nginx", "nginx"))? {
            return Ok(());
        }
        let (address, state) = (BenchNetwork::Loopback.free_address()?, self.site.state_folder("nginx")?);
        let setting = PeerSetting {
            network: &BenchNetwork::Loopback,
            address,
            cpu: self.cpus.server,
            root: &self.site.root(),
            state: &state,
        };
        let http2 = BenchNetwork::Loopback.free_address()?;
        let command = nginx::both_versions_command(setting, http2, NginxSending::Copy)?;
        let server = PeerProcess::start("nginx", command, &state)?;
        server.wait_until_listening(&BenchNetwork::Loopback, address)?;
        let (path, mut injectors) = (format!("/{}", FILE.0), injectors::here(self.options.size)?);
        let load = WrkLoad { connections: CONNECTIONS, duration: self.options.duration };
        self.rounds("nginx 1k", (address, &path, Speech::Http1), load, &injectors, points)?;
        injectors.retain(|injector| injector.speaks_http2());
        let speech = Speech::Http2 { streams: STREAMS };
        self.rounds("nginx 1k h2", (http2, &path, speech), load, &injectors, points)?;
        server.stop()
    }

    /// Against a back end that waits. If the results differ, an injector is wrong.
    fn agreement(&self, points: &mut Points) -> BenchResult<()> {
        let (address, state) = (BenchNetwork::Loopback.free_address()?, self.site.state_folder("backend")?);
        let mut command = BenchNetwork::Loopback.server_command(&self.options.vermeil, self.cpus.server);
        command.args(["load", "backend", "--listen", &address.to_string()]);
        command.args(["--delay", &format!("{}ms", DELAY.as_millis()), "--cores", &only(self.cpus.server)]);
        let server = PeerProcess::start("vermeil load backend", command, &state)?;
        server.wait_until_listening(&BenchNetwork::Loopback, address)?;
        let mut injectors = injectors::here(self.options.size)?;
        // Without ab, because ab uses HTTP/1.0 and the back end answers HTTP/1.0 by closing the
        // connection.
        injectors.retain(|injector| *injector != BenchInjector::Ab);
        let duration = match self.options.size {
            BenchSize::Full => self.options.duration.max(WAITING),
            BenchSize::Smoke => self.options.duration,
        };
        let load = WrkLoad { connections: CONNECTIONS, duration };
        self.rounds(AGREEMENT, (address, "/product?id=1", Speech::Http1), load, &injectors, points)?;
        server.stop()
    }

    fn rounds(
        &self,
        program: &str,
        (address, path, speech): (SocketAddr, &str, Speech),
        load: WrkLoad,
        injectors: &[BenchInjector],
        points: &mut Points,
    ) -> BenchResult<()> {
        let state = self.site.state_folder("load")?;
        let place = InjectorPlace {
            address,
            target: ProbeTarget::to(path),
            load,
            speech,
            cpu: self.cpus.client,
            vermeil: &self.options.vermeil,
            state: &state,
            wrk: Wrk::new(&state, self.cpus.client)?,
            stop: self.stop,
        };
        for round in 0..self.options.rounds {
            let mut order = injectors.to_vec();
            order.rotate_left(round % injectors.len().max(1));
            for injector in order {
                self.stop.check()?;
                let sample = injector.run(&place)?;
                eprintln!(
                    "round {}/{}  {program:<11} {:<14} {:>8.0} requests per cpu second  {:>8.0} req/s",
                    round + 1,
                    self.options.rounds,
                    injector.name(),
                    sample.per_cpu_second(),
                    sample.per_second
                );
                for (metric, unit, value) in sample.numbers() {
                    let key =
                        PointKey { program: program.into(), variant: injector.name().into(), metric, unit };
                    points.push(key, value);
                }
            }
        }
        Ok(())
    }
}

/// One cpu as an argument of `--cores`: a range, because a plain number would be a count.
pub(crate) fn only(cpu: usize) -> String {
    format!("{cpu}-{cpu}")
}

/// `vermeil load` on `cpu`, with the record on standard output.
pub(crate) fn vermeil_load(vermeil: &Path, cpu: usize) -> Command {
    let mut command = BenchNetwork::Loopback.client_command(vermeil, cpu);
    command.args(["load", "--quiet", "--json", "-", "--cores", &only(cpu)]);
    command
}

/// Runs an injector that writes its record to `file`, and reads the record. The exit status is
/// ignored, because the status only rates the run.
pub(crate) fn recorded(command: &mut Command, file: &Path) -> BenchResult<Record> {
    let output = command.output().map_err(BenchError::thing("start", "vermeil load"))?;
    let text = fs::read_to_string(file).map_err(|_missing| BenchError::Command {
        command: format!("{command:?}"),
        output: String::from_utf8_lossy(&output.stderr).into_owned(),
    })?;
    fs::remove_file(file).map_err(BenchError::path("remove", file))?;
    Record::from_json(&text).map_err(|problem| BenchError::form(file.display(), problem))
}
