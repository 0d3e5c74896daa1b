//! The bench of virtual hosts: the cost of loading thousands of hosts, and the cost of finding a
//! host.
//!
//! Vermeil and nginx are started with more and more hosts, each with a name and a folder, on one
//! cpu. The bench measures the time until the first answer, the memory at that time, and the cpu
//! time of a request to the first and to the last host of the file. The report is in `report`.

mod report;
pub mod servers;

use std::time::{Duration, Instant};

use crate::BenchResult;
use crate::machine::BenchCpus;
use crate::measure::{CpuTime, memory_of_group};
use crate::network::BenchNetwork;
use crate::options::BenchOptions;
use crate::peers::PeerServer;
use crate::peers::process::PeerProcess;
use crate::points::{PointKey, Points};
use crate::probe::{self, ProbeTarget};
use crate::report::BenchReport;
use crate::size::BenchSize;
use crate::stop::StopFlag;
use crate::wrk::{Wrk, WrkLoad};
use servers::HostSites;

/// Rounds of a full run by default: the smallest number with a median and a spread.
pub const ROUNDS: usize = 3;
/// Time under load of each measured request.
pub const DURATION: Duration = Duration::from_secs(1);
/// Connections of every run, the same number as in the benches of servers.
pub const CONNECTIONS: usize = 64;
/// The numbers of hosts in a full run: one site, a small hoster's machine, and a large hoster's
/// machine.
const COUNTS: [usize; 3] = [1, 10_000, 100_000];

/// Runs the bench.
///
/// # Errors
/// A server does not start or answers wrongly, or the run is interrupted. In every case all started
/// processes are stopped.
pub fn run(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let counts = if options.size == BenchSize::Full { &COUNTS[..] } else { &[1, 200] };
    let servers = PeerServer::here(options.size)?;
    let mut points = Points::default();
    for &count in counts {
        let sites = HostSites::new(count)?;
        for round in 0..options.rounds {
            let mut order = servers.clone();
            order.rotate_left(round % servers.len());
            for server in order {
                stop.check()?;
                sample(options, server, &sites, stop, &mut points)?;
            }
        }
    }
    Ok(report::report(options, &points))
}

/// Runs the smoke size and checks the shape of all results, in a temporary folder; asserts nothing
/// about time.
///
/// # Errors
/// As for [`run()`], and when a number is missing or impossible.
pub fn smoke(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let report = run(options, stop)?;
    let metrics = ["load_ms", "memory_mb", "first_us", "last_us"];
    report.check(&metrics.map(|metric| (PeerServer::Vermeil.name(), metric)))?;
    Ok(report)
}

/// One start of one server, and the requests to the server.
fn sample(
    options: &BenchOptions,
    server: PeerServer,
    sites: &HostSites,
    stop: &StopFlag,
    points: &mut Points,
) -> BenchResult<()> {
    let cpus = BenchCpus::allowed()?;
    let (network, address) = (BenchNetwork::Loopback, BenchNetwork::Loopback.free_address()?);
    let command = servers::command(server, options, sites, address, cpus.server)?;
    let start = Instant::now();
    let process = PeerProcess::start(server.name(), command, sites.state())?;
    process.wait_until_listening(&network, address)?;
    let target = |host: usize| ProbeTarget { host: Some(sites.name(host)), ..ProbeTarget::to("/index.html") };
    let last = sites.count() - 1;
    let fetch = |host| {
        let answer = probe::fetch(address, &target(host));
        answer.map_err(|error| process.failure(&format!("asked for host {host}: {error}")))
    };
    fetch(last)?;
    let load_ms = start.elapsed().as_secs_f64() * 1e3;
    let program = format!("{} hosts", sites.count());
    let mut push = |metric, unit, value| {
        let key = PointKey { program: program.clone(), variant: server.name().to_owned(), metric, unit };
        points.push(key, value);
    };
    push("load_ms", "ms", load_ms);
    push("memory_mb", "MB", memory_of_group(process.group())? as f64 / 1e6);
    let wrk = Wrk::new(sites.state(), cpus.client)?;
    let load = WrkLoad { connections: CONNECTIONS, duration: options.duration };
    for (metric, host) in [("first_us", 0), ("last_us", last)] {
        fetch(host)?;
        let before = CpuTime::of_group(process.group())?;
        let outcome = wrk.run(&network, address, &target(host), load, stop)?;
        let spent = CpuTime::of_group(process.group())? - before;
        if let Some(problem) = outcome.problem(200) {
            return Err(process.failure(&format!("under load of host {host}: {problem}")));
        }
        push(metric, "us", spent.run.as_secs_f64() * 1e6 / outcome.requests as f64);
    }
    eprintln!("{program}  {}  {load_ms:.0} ms", server.name());
    process.stop()
}
