//! The bench of the long tail: requests that no cache answers, because each is for another host or
//! another file than the last requests.
//!
//! Each server runs on one cpu. The bench measures two parts: a small page of a random host out
//! of thousands; a random file out of hundreds of thousands, all files alike or some far more
//! popular than others (`site`). Each part has the same sequence of requests for every server. It
//! begins with a visit to each folder, which is measured by itself, and a warm-up that is not
//! counted, and ends with a short run that counts system calls. Two small parts follow: popular
//! files beside a walk of all files (`walk`), and files on a slow disk (`slow`). `servers` has the
//! configurations, `report` the tables. [`loading`] is a separate bench.

pub mod loading;
mod report;
pub(crate) mod servers;
pub(crate) mod site;
mod slow;
mod walk;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::machine::BenchCpus;
use crate::measure::{CpuTime, MachineTime, memory_of_group, processes_of_group};
use crate::network::BenchNetwork;
use crate::options::BenchOptions;
use crate::peers::process::PeerProcess;
use crate::points::{PointKey, Points};
use crate::probe::{self, ProbeTarget};
use crate::report::BenchReport;
use crate::stop::StopFlag;
use crate::wrk::{Wrk, WrkLoad, WrkOutcome};
use crate::{BenchError, BenchResult};
use servers::TailServer;
use site::{TailSite, TailTree, TailWork};

/// Rounds of a full run by default: the smallest number with a median and a spread.
pub const ROUNDS: usize = 3;
/// Time under load of each measured part, and of its warm-up.
pub const DURATION: Duration = Duration::from_secs(4);
/// Connections of every run, the same number as in the benches of servers.
const CONNECTIONS: usize = 64;
/// The time for a visit to each folder: a slow machine takes 20 s.
const VISITS_MAX: Duration = Duration::from_secs(120);
/// Time under load of the run that counts system calls: some ten thousand requests.
const COUNTED: Duration = Duration::from_secs(1);

/// Runs the bench.
///
/// # Errors
/// A server does not start or answers wrongly, or the run is interrupted. In every case all started
/// processes are stopped.
pub fn run(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let servers = TailServer::here(options.size)?;
    let mut points = Points::default();
    let mut made: Option<(TailTree, TailSite)> = None;
    for &work in TailWork::of(options.size) {
        if work.overlay && !rustix::process::geteuid().is_root() {
            println!("\n******** SKIPPED: {}: only root may mount ********\n", work.name);
            continue;
        }
        let site = match made.take() {
            Some((tree, site)) if tree == work.tree => site,
            // The folder of the former pages goes first, because both may not fit on the disk.
            former => {
                drop(former);
                TailSite::new(work.tree, options.size)?
            }
        };
        site.draw(work, options.size)?;
        for round in 0..options.rounds {
            let mut order = servers.clone();
            order.rotate_left(round % servers.len());
            for server in order {
                stop.check()?;
                match sample(options, server, (work, &site), stop, &mut points) {
                    // lighttpd stops answering in some parts, and the comparison stands without it.
                    Err(error) if server == TailServer::Lighttpd => {
                        stop.check()?;
                        eprintln!("******** LEFT OUT: {}: {error} ********", work.name);
                    }
                    done => done?,
                }
            }
        }
        made = Some((work.tree, site));
    }
    let (mut of_walk, mut of_disk) = (Points::default(), Points::default());
    if let Some((_, site)) = made {
        walk::run(options, &site, stop, &mut of_walk)?;
    }
    slow::run(options, stop, &mut of_disk)?;
    Ok(report::tail(options, (&points, &of_walk, &of_disk)))
}

/// Runs the smoke size and checks the shape of all results, in a temporary folder; asserts nothing
/// about time.
///
/// # Errors
/// As for [`run()`], and when a number is missing or impossible.
pub fn smoke(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let report = run(options, stop)?;
    let metrics = ["first_us", "cpu_us", "both_us", "memory_mb"];
    report.check(&metrics.map(|metric| (TailServer::Vermeil.name(), metric)))?;
    Ok(report)
}

/// One start of one server, and the random requests to the server.
fn sample(
    options: &BenchOptions,
    server: TailServer,
    (work, site): (TailWork, &TailSite),
    stop: &StopFlag,
    points: &mut Points,
) -> BenchResult<()> {
    let cpus = BenchCpus::allowed()?;
    let (network, address) = (BenchNetwork::Loopback, BenchNetwork::Loopback.free_address()?);
    let state = site.state(server.name())?;
    let command = servers::command(server, options, site, &state, address, cpus.server)?;
    let command = match work.overlay {
        true => servers::on_overlay(&command, &site.root(), &site.state("empty")?),
        false => command,
    };
    let process = PeerProcess::start(server.name(), command, &state)?;
    process.wait_until_listening(&network, address)?;
    let target = site.target(0);
    let answer = probe::fetch(address, &target);
    let answer = answer.map_err(|error| process.failure(&format!("asked for {target:?}: {error}")))?;
    if (answer.status, answer.body_bytes) != (200, site.page_bytes()) {
        return Err(process.failure(&format!("answered {answer:?} to {target:?}")));
    }
    let visited = VisitedServer { process, state, address, client_cpu: cpus.client, target, stop };
    let process = &visited.process;
    let (visits, first) = visited.measured(&site.first_visits(), VISITS_MAX)?;
    // Requests in flight at the end are not counted.
    if visits.requests + CONNECTIONS as u64 + 1 < site.folders() as u64 {
        return Err(process.failure(&format!("{} visits to {} folders", visits.requests, site.folders())));
    }
    let requests = site.requests();
    visited.run(&requests, options.duration)?;
    let (outcome, cpu) = visited.measured(&requests, options.duration)?;
    let memory_mb = memory_of_group(process.group())? as f64 / 1e6;
    let calls = visited.calls(&requests, options.duration)?;
    let program = work.name;
    let mut push = |metric, unit, value| {
        let key = PointKey { program: program.into(), variant: server.name().into(), metric, unit };
        points.push(key, value);
    };
    push("first_us", "us", first.server_us);
    push("cpu_us", "us", cpu.server_us);
    push("both_us", "us", cpu.both_us);
    push("per_s", "1/s", outcome.per_second());
    push("memory_mb", "MB", memory_mb);
    if let Some(calls) = calls {
        push("calls", "calls", calls);
    }
    eprintln!(
        "{program:<28} {:<16} {:>7.1} us first  {:>7.1} us  {memory_mb:>6.1} MB  {:>5.1} calls",
        server.name(),
        first.server_us,
        cpu.server_us,
        calls.unwrap_or(f64::NAN)
    );
    visited.process.stop()
}

/// The cpu time of a request, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestCpuTime {
    /// Of the server's processes.
    pub(crate) server_us: f64,
    /// Of the server's processes and of the load.
    pub(crate) both_us: f64,
}

/// A server that wrk asks for the pages of a site.
pub(crate) struct VisitedServer<'a> {
    pub(crate) process: PeerProcess,
    /// The folder for wrk's script.
    pub(crate) state: PathBuf,
    pub(crate) address: SocketAddr,
    pub(crate) client_cpu: usize,
    pub(crate) target: ProbeTarget,
    pub(crate) stop: &'a StopFlag,
}

impl VisitedServer<'_> {
    /// Sends the requests of wrk's script `requests` for at most `duration`.
    ///
    /// # Errors
    /// As [`Wrk::run`], and when the server does not answer each request with 200.
    pub(crate) fn run(&self, requests: &str, duration: Duration) -> BenchResult<WrkOutcome> {
        let wrk = Wrk::with_requests(&self.state, self.client_cpu, requests)?;
        let load = WrkLoad { connections: CONNECTIONS, duration };
        let outcome = wrk.run(&BenchNetwork::Loopback, self.address, &self.target, load, self.stop)?;
        match outcome.problem(200) {
            Some(problem) => Err(self.process.failure(&format!("under load: {problem}"))),
            None => Ok(outcome),
        }
    }

    /// The same. Also returns the cpu time of a request.
    pub(crate) fn measured(
        &self,
        requests: &str,
        duration: Duration,
    ) -> BenchResult<(WrkOutcome, RequestCpuTime)> {
        let (before, machine) = (CpuTime::of_group(self.process.group())?, MachineTime::now()?);
        let outcome = self.run(requests, duration)?;
        let spent = CpuTime::of_group(self.process.group())? - before;
        let load = MachineTime::now()?.children_since(&machine);
        let of_request = |time: Duration| time.as_secs_f64() * 1e6 / outcome.requests as f64;
        let cpu = RequestCpuTime { server_us: of_request(spent.run), both_us: of_request(spent.run + load) };
        Ok((outcome, cpu))
    }

    /// The number of system calls of a request, in a run of its own that takes at most `duration`.
    pub(crate) fn calls(&self, requests: &str, duration: Duration) -> BenchResult<Option<f64>> {
        system_calls(&processes_of_group(self.process.group())?, || {
            Ok(self.run(requests, duration.min(COUNTED))?.requests)
        })
    }
}

/// The number of system calls per request of `processes` during `run`, which returns the number of
/// requests, from the kernel's tracepoint `raw_syscalls:sys_enter`. `None` if perf is not installed
/// or may not count.
fn system_calls(processes: &[u32], run: impl FnOnce() -> BenchResult<u64>) -> BenchResult<Option<f64>> {
    let list = processes.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let mut command = Command::new("perf");
    command.args(["stat", "--field-separator", ",", "--event", "raw_syscalls:sys_enter", "--pid", &list]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let Ok(counter) = command.spawn() else { return Ok(None) };
    let requests = run();
    // perf prints its count when interrupted. The child is not yet waited for, so the id is valid.
    let interrupted = rustix::process::Pid::from_child(&counter);
    let _ended_already = rustix::process::kill_process(interrupted, rustix::process::Signal::INT);
    let output = counter.wait_with_output().map_err(BenchError::thing("wait for", "perf"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let count = said.lines().find_map(|line| line.split(',').next()?.trim().parse::<f64>().ok());
    let requests = requests?;
    Ok(count.map(|count| count / requests as f64))
}
