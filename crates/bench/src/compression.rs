//! The bench of compression: the cost of a compressed answer, and the delay of a small request
//! beside large compressions.
//!
//! Each server runs on one cpu, and the load has the other. The texts are the pages of this
//! repository. Vermeil and nginx have the same types and the same level of gzip. Vermeil keeps the
//! compressed contents of files. For this reason the bench measures files with that memory
//! (`kept`), and files without (`anew`), where both servers compress each answer. The other codings
//! run in Vermeil alone. `php` is an answer of PHP, from the same pool for both. `beside` asks for
//! a small file while other connections ask for large files that are compressed anew. Rounds are
//! interleaved and their order rotates. `servers` has the configurations, `work` the cases,
//! `report` the table.

mod report;
mod servers;
mod work;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::machine::BenchCpus;
use crate::measure::CpuTime;
use crate::network::BenchNetwork;
use crate::options::BenchOptions;
use crate::peers::process::PeerProcess;
use crate::peers::{PeerServer, PeerSetting, fpm, is_here};
use crate::points::{PointKey, Points};
use crate::probe::ProbeTarget;
use crate::report::BenchReport;
use crate::site::BenchSite;
use crate::stop::StopFlag;
use crate::wrk::{Wrk, WrkLoad, WrkOutcome};
use crate::{BenchError, BenchResult};
use work::{CASES, CompressionCase, CompressionWork};

/// Rounds of a full run by default: the smallest number with a median and a spread.
pub const ROUNDS: usize = 5;
/// Time under load of each run.
pub const DURATION: Duration = Duration::from_secs(2);
/// Connections with one request in flight each. As many children has the pool of PHP, so that no
/// request waits for a child.
const CONNECTIONS: usize = 4;
/// Connections that ask for large files meanwhile, in `beside`.
const LARGE_CONNECTIONS: usize = 8;
/// The large load of `beside` begins so long before the small load, and ends so long after.
const MARGIN: Duration = Duration::from_millis(300);
/// The least duration of a run of the smoke size, because a row of compressions by an unoptimized
/// server takes tenths of a second on a busy machine.
const SMOKE_MIN: Duration = Duration::from_millis(500);

/// Runs the bench.
///
/// # Errors
/// A server does not start or answers wrongly, or the run is interrupted. In every case all started
/// processes are stopped.
pub fn run(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let (site, cpus) = (BenchSite::new(&[])?, BenchCpus::allowed()?);
    work::write_files(&site.root(), &options.repository, options.size)?;
    let pool = site.state_folder("php-fpm")?;
    let php = match is_here(options.size, fpm::FPM)? {
        true => Some(fpm::start(&BenchNetwork::Loopback, cpus.server, &pool, CONNECTIONS)?),
        false => None,
    };
    let socket = php.is_some().then(|| fpm::socket(&pool));
    let bench = CompressionBench { options, stop, cpus, site, socket };
    let (mut points, servers) = (Points::default(), PeerServer::here(options.size)?);
    for round in 0..options.rounds {
        let mut order = servers.clone();
        order.rotate_left(round % servers.len());
        for case in &CASES {
            for &server in order.iter().filter(|server| bench.has(case, **server)) {
                bench.sample(server, case, &mut points)?;
            }
        }
    }
    php.map_or(Ok(()), PeerProcess::stop)?;
    Ok(report::report(options, &points))
}

/// Runs the smoke size and checks the shape of all results, in a temporary folder; asserts nothing
/// about time.
///
/// # Errors
/// As for [`run()`], and when a number is missing or impossible.
pub fn smoke(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let duration = options.duration.max(SMOKE_MIN);
    let report = run(&BenchOptions { duration, ..options.clone() }, stop)?;
    let metrics = ["cpu_us", "answer_kb", "p99_us"];
    report.check(&metrics.map(|metric| (PeerServer::Vermeil.name(), metric)))?;
    Ok(report)
}

/// The state shared by all runs.
struct CompressionBench<'a> {
    options: &'a BenchOptions,
    stop: &'a StopFlag,
    cpus: BenchCpus,
    site: BenchSite,
    /// The socket of the pool of PHP, if PHP is installed.
    socket: Option<PathBuf>,
}

impl CompressionBench<'_> {
    fn has(&self, case: &CompressionCase, server: PeerServer) -> bool {
        let has_program = case.work != CompressionWork::Php || self.socket.is_some();
        has_program && (server == PeerServer::Vermeil || case.is_for_nginx())
    }

    /// A start of a server, and a run of a case.
    fn sample(&self, server: PeerServer, case: &CompressionCase, points: &mut Points) -> BenchResult<()> {
        self.stop.check()?;
        let (network, address) = (&BenchNetwork::Loopback, BenchNetwork::Loopback.free_address()?);
        let (root, state) = (self.site.root(), self.site.state_folder(server.name())?);
        let setting = PeerSetting { network, address, cpu: self.cpus.server, root: &root, state: &state };
        let socket = self.socket.as_deref().filter(|_| case.work == CompressionWork::Php);
        let command = servers::command(server, self.options, setting, case, socket)?;
        let process = PeerProcess::start(server.name(), command, &state)?;
        process.wait_until_listening(network, address)?;
        let wrk = Wrk::with_requests(&state, self.cpus.client, &case.requests())?;
        let run = |duration| {
            let load = WrkLoad { connections: CONNECTIONS, duration };
            let outcome = wrk.run(network, address, &ProbeTarget::to("/"), load, self.stop)?;
            self.checked(&process, case, outcome)
        };
        let mut push = |metric, unit, value| {
            let key = PointKey { program: case.name.into(), variant: server.name().into(), metric, unit };
            points.push(key, value);
        };
        if case.work == CompressionWork::Beside {
            let (small, large) = self.beside(&process, case, setting, &wrk)?;
            push("p50_us", "us", small.p50_us as f64);
            push("p99_us", "us", small.p99_us as f64);
            push("small_per_s", "1/s", small.per_second());
            push("large_per_s", "1/s", large.per_second());
            eprintln!("{:<8} {:<8} p99 {:>7} us", case.name, server.name(), small.p99_us);
            return process.stop();
        }
        // Fills the memory of compressed contents, and the caches of PHP.
        run(self.options.duration / 4)?;
        let before = CpuTime::of_group(process.group())?;
        let outcome = run(self.options.duration)?;
        let spent = CpuTime::of_group(process.group())? - before;
        let cpu_us = spent.run.as_secs_f64() * 1e6 / outcome.requests as f64;
        push("cpu_us", "us", cpu_us);
        push("per_s", "1/s", outcome.per_second());
        push("answer_kb", "KB", answer_bytes(&outcome) / 1e3);
        eprintln!("{:<8} {:<8} {cpu_us:>9.1} us", case.name, server.name());
        process.stop()
    }

    /// Loads the server with small requests, while large files are compressed. Returns both
    /// results.
    fn beside(
        &self,
        process: &PeerProcess,
        case: &CompressionCase,
        PeerSetting { network, address, .. }: PeerSetting<'_>,
        large: &Wrk,
    ) -> BenchResult<(WrkOutcome, WrkOutcome)> {
        let small = Wrk::new(&self.site.state_folder("small")?, self.cpus.client)?;
        let root = ProbeTarget::to("/");
        thread::scope(|scope| {
            let loading = scope.spawn(|| {
                let duration = self.options.duration + 2 * MARGIN;
                let load = WrkLoad { connections: LARGE_CONNECTIONS, duration };
                large.run(network, address, &root, load, self.stop)
            });
            self.stop.pass(MARGIN)?;
            let load = WrkLoad { connections: CONNECTIONS, duration: self.options.duration };
            let target = ProbeTarget::to(work::SMALL_PATH);
            let outcome = small.run(network, address, &target, load, self.stop)?;
            if let Some(problem) = outcome.problem(200) {
                return Err(process.failure(&format!("under load of small files: {problem}")));
            }
            let loaded = loading.join().map_err(|_| BenchError::form(case.name, "the load panicked"))?;
            Ok((outcome, self.checked(process, case, loaded?)?))
        })
    }

    /// The outcome, if every answer was compressed.
    fn checked(
        &self,
        process: &PeerProcess,
        case: &CompressionCase,
        outcome: WrkOutcome,
    ) -> BenchResult<WrkOutcome> {
        let bytes = answer_bytes(&outcome);
        let problem = outcome.problem(200).or_else(|| {
            let is_whole = bytes > case.content_bytes(self.options.size) as f64 / 2.0;
            is_whole.then(|| format!("answers of {bytes:.0} bytes are not compressed"))
        });
        match problem {
            Some(problem) => Err(process.failure(&format!("under load of {}: {problem}", case.name))),
            None => Ok(outcome),
        }
    }
}

/// Bytes of an answer, with its head. Answers that were under way at the end count in part.
fn answer_bytes(outcome: &WrkOutcome) -> f64 {
    outcome.bytes as f64 / outcome.requests.max(1) as f64
}

/// The path of a file below `root`.
fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}
