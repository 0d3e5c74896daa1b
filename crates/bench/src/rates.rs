//! The bench of rates: the cost of a request whose client has a rate, beside nginx with
//! `limit_req`.
//!
//! The load is a proxy that both servers believe, so each request names its own client. A server
//! has two hosts that differ in the rate alone, and no client exceeds the rate. Each round starts a
//! server once and loads both hosts by turns, because two starts of a server differ more than the
//! rate costs. The order of servers and hosts rotates. `servers` has the configurations,
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
use crate::wrk::{Wrk, WrkLoad, WrkOutcome};

/// Rounds of a full run by default. The cost is a few percent of a request, so more rounds are
/// needed than for a comparison of servers.
pub const ROUNDS: usize = 11;
/// Time under load of each host in a round.
pub const DURATION: Duration = Duration::from_secs(1);
/// Parts of this time. The hosts take turns, because the machine's speed drifts within a second by
/// more than the rate costs: with one part, ratios of rounds went from 0.80 to 1.19.
const SLICES: usize = 5;
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

/// The cost of the requests of a host in a round.
#[derive(Clone, Copy, Debug, Default)]
struct HostCost {
    run: Duration,
    requests: u64,
    duration_us: u64,
}

impl HostCost {
    fn add(&mut self, run: Duration, outcome: WrkOutcome) {
        self.run += run;
        self.requests += outcome.requests;
        self.duration_us += outcome.duration_us;
    }

    fn cpu_us(&self) -> f64 {
        self.run.as_secs_f64() * 1e6 / self.requests as f64
    }

    fn per_second(&self) -> f64 {
        self.requests as f64 * 1e6 / self.duration_us as f64
    }
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
        let mut spent = RateHost::ALL.map(|_| HostCost::default());
        let slices = if self.options.size == BenchSize::Full { SLICES } else { 1 };
        for slice in 0..slices {
            let hosts = if (round + slice).is_multiple_of(2) { [0, 1] } else { [1, 0] };
            for host in hosts {
                let before = CpuTime::of_group(process.group())?;
                let outcome = run(RateHost::ALL[host], self.options.duration / slices as u32)?;
                let run = (CpuTime::of_group(process.group())? - before).run;
                spent[host].add(run, outcome);
            }
        }
        for (host, cost) in RateHost::ALL.into_iter().zip(spent) {
            let variant = host.variant(server);
            eprintln!("{:<16} {variant:<14} {:>6.2} us", case.name, cost.cpu_us());
            let mut push = |metric, unit, value| {
                let key = PointKey { program: case.name.into(), variant: variant.clone(), metric, unit };
                points.push(key, value);
            };
            push("cpu_us", "us", cost.cpu_us());
            push("per_s", "1/s", cost.per_second());
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
local head = "GET /{} HTTP/1.1\r\nHost: {}\r\nX-Forwarded-For: "
init = function(args)
  for number = 0, {clients} - 1 do
    local client = "10." .. math.floor(number / 65536) .. "." .. math.floor(number / 256) % 256 .. "." .. number % 256
    made[number] = head .. client .. "\r\n\r\n"
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
