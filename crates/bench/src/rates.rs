//! The bench of rates: the cost of a request whose client has a rate, beside nginx with
//! `limit_req`.
//!
//! The load is a proxy that both servers believe, so each request names its own client. A server
//! has two hosts that differ in the rate alone, and no client exceeds the rate. Each round starts a
//! server once and loads both hosts one after the other, because two starts of a server differ more
//! than the rate costs. The order of servers and hosts rotates. `servers` has the configurations,
//! `report` the table.

mod report;
mod servers;

use std::time::Duration;

use crate::BenchResult;
use crate::machine::BenchCpus;
use crate::measure::CpuTime;
use crate::network::BenchNetwork;
use crate::options::BenchOptions;
use crate::peers::process::PeerProcess;
use crate::peers::{PeerServer, PeerSetting};
use crate::points::{PointKey, Points};
use crate::probe::ProbeTarget;
use crate::report::BenchReport;
use crate::site::BenchSite;
use crate::size::BenchSize;
use crate::stop::StopFlag;
use crate::wrk::{Wrk, WrkLoad};

/// Rounds of a full run by default. The cost is a few percent of a request, so more rounds are
/// needed than for a comparison of servers.
pub const ROUNDS: usize = 11;
/// Time under load of each run.
pub const DURATION: Duration = Duration::from_secs(1);
/// Connections with one request in flight each, the same number as in the benches of servers.
const CONNECTIONS: usize = 64;
/// The file of every request, and its size.
const FILE: (&str, usize) = ("1k.html", 1024);

/// Requests from a number of client addresses.
#[derive(Clone, Copy, Debug)]
struct RateCase {
    /// The name in rows.
    name: &'static str,
    clients: usize,
}

/// All cases: a client whose count stays in the nearest cache, and the number of clients in the
/// project's goal.
const CASES: [RateCase; 2] =
    [RateCase { name: "1 client", clients: 1 }, RateCase { name: "100,000 clients", clients: 100_000 }];

/// The hosts of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RateHost {
    Free,
    Rated,
}

impl RateHost {
    const ALL: [Self; 2] = [Self::Free, Self::Rated];

    /// The host's name in requests.
    fn name(self) -> &'static str {
        match self {
            Self::Free => "free.example",
            Self::Rated => "rated.example",
        }
    }

    /// The name in rows.
    fn variant(self, server: PeerServer) -> String {
        match self {
            Self::Free => server.name().into(),
            Self::Rated => format!("{}, rate", server.name()),
        }
    }
}

/// Runs the bench.
///
/// # Errors
/// A server does not start or answers wrongly, or the run is interrupted. In every case all started
/// processes are stopped.
pub fn run(options: &BenchOptions, stop: &StopFlag) -> BenchResult<BenchReport> {
    let (site, cpus) = (BenchSite::new(&[FILE])?, BenchCpus::allowed()?);
    let bench = RatesBench { options, stop, cpus, site };
    let (mut points, servers) = (Points::default(), PeerServer::here(options.size)?);
    for round in 0..options.rounds {
        for case in &CASES {
            for place in 0..servers.len() {
                let server = servers[(round + place) % servers.len()];
                bench.sample(server, *case, round, &mut points)?;
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
    let variants = RateHost::ALL.map(|host| host.variant(PeerServer::Vermeil));
    report.check(&[(&variants[0], "cpu_us"), (&variants[1], "cpu_us"), (&variants[1], "per_s")])?;
    Ok(report)
}

/// The state shared by all runs.
struct RatesBench<'a> {
    options: &'a BenchOptions,
    stop: &'a StopFlag,
    cpus: BenchCpus,
    site: BenchSite,
}

impl RatesBench<'_> {
    /// One start of one server, and a run of each host.
    fn sample(
        &self,
        server: PeerServer,
        case: RateCase,
        round: usize,
        points: &mut Points,
    ) -> BenchResult<()> {
        self.stop.check()?;
        let (network, address) = (&BenchNetwork::Loopback, BenchNetwork::Loopback.free_address()?);
        let (root, state) = (self.site.root(), self.site.state_folder(server.name())?);
        let setting = PeerSetting { network, address, cpu: self.cpus.server, root: &root, state: &state };
        let process =
            PeerProcess::start(server.name(), servers::command(server, self.options, setting)?, &state)?;
        process.wait_until_listening(network, address)?;
        let run = |host: RateHost, duration| {
            let wrk = Wrk::with_requests(&state, self.cpus.client, &self.requests(case, host))?;
            let load = WrkLoad { connections: CONNECTIONS, duration };
            let outcome = wrk.run(network, address, &ProbeTarget::to("/"), load, self.stop)?;
            match outcome.problem(200) {
                Some(problem) => Err(process.failure(&format!("under load of {}: {problem}", host.name()))),
                None => Ok(outcome),
            }
        };
        // Takes the memory of the counts, and opens the file.
        run(RateHost::Rated, self.options.duration / 4)?;
        let mut hosts = RateHost::ALL;
        hosts.rotate_left(round % RateHost::ALL.len());
        for host in hosts {
            let before = CpuTime::of_group(process.group())?;
            let outcome = run(host, self.options.duration)?;
            let spent = CpuTime::of_group(process.group())? - before;
            let cpu_us = spent.run.as_secs_f64() * 1e6 / outcome.requests as f64;
            let variant = host.variant(server);
            eprintln!("{:<16} {variant:<14} {cpu_us:>6.2} us", case.name);
            let mut push = |metric, unit, value| {
                let key = PointKey { program: case.name.into(), variant: variant.clone(), metric, unit };
                points.push(key, value);
            };
            push("cpu_us", "us", cpu_us);
            push("per_s", "1/s", outcome.per_second());
        }
        process.stop()
    }

    /// The part of wrk's script that makes the requests of the clients, one after the other. The
    /// requests are made ahead, so all hosts have the same load.
    fn requests(&self, case: RateCase, host: RateHost) -> String {
        let clients = match self.options.size {
            BenchSize::Full => case.clients,
            BenchSize::Smoke => case.clients.min(1000),
        };
        format!(
            r#"
local made, place = {{}}, 0
init = function(args)
  for number = 0, {clients} - 1 do
    local client = "10." .. math.floor(number / 65536) .. "." .. math.floor(number / 256) % 256 .. "." .. number % 256
    made[number] = wrk.format(nil, "/{}", {{ Host = "{}", ["X-Forwarded-For"] = client }})
  end
end
request = function()
  place = (place + {STRIDE}) % {clients}
  return made[place]
end
"#,
            FILE.0,
            host.name()
        )
    }
}

/// The step from a client to the next: a prime, so every client has its turn, and no two requests
/// in a row have neighbouring addresses.
const STRIDE: usize = 7919;
