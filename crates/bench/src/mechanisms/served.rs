//! The mechanisms on the way of a request: pairs of a server with and without a mechanism, under
//! the load that the mechanism is made for.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use vermeil_ablation::{Mechanism, VARIABLE};

use super::{keep, switched_off, variant};
use crate::BenchResult;
use crate::machine::BenchCpus;
use crate::network::BenchNetwork;
use crate::options::BenchOptions;
use crate::peers::process::PeerProcess;
use crate::points::Points;
use crate::probe::ProbeTarget;
use crate::size::BenchSize;
use crate::stop::StopFlag;
use crate::tail::servers::{self, TailServer};
use crate::tail::site::{TailSite, TailTree, TailWork};
use crate::tail::{RequestCpuTime, VisitedServer};
use crate::wrk::WrkOutcome;

/// The metric of the server's cpu time per request.
pub(super) const CPU: &str = "cpu_us";
/// The metric of rates.
pub(super) const RATE: &str = "per_s";
/// The metric of the 99th percentile of the time to an answer.
pub(super) const P99: &str = "p99_us";
/// The metric of the server's system calls per request.
pub(super) const CALLS: &str = "calls";
/// Turns of each server in a round, often enough that a drift of the machine's speed meets both
/// servers alike.
pub(super) const TURNS: usize = 8;
/// Turns that take as long as a run.
const TURN_PART: u32 = 4;
/// The only mechanism of the smoke size.
pub(super) const SMOKE_MECHANISM: Mechanism = Mechanism::SpeculativeReceive;

/// The parts of `bench tail` in which the files are asked for.
const ALIKE: &str = "200,000 files";
const POPULAR: &str = "200,000 files, zipf";
const OVERLAY: &str = "200,000 files, overlayfs";

/// A load on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServedWork {
    /// A file in memory, with a connection for each request.
    Connections,
    /// The part of `bench tail` with this name.
    Tail(&'static str),
}

impl ServedWork {
    /// The name in rows.
    fn name(self) -> &'static str {
        match self {
            Self::Connections => "4 KB in memory, a connection each",
            Self::Tail(name) => name,
        }
    }
}

/// Each mechanism with its load.
const PAIRS: [(Mechanism, ServedWork); 4] = [
    (SMOKE_MECHANISM, ServedWork::Connections),
    (Mechanism::Doorkeeper, ServedWork::Tail(POPULAR)),
    (Mechanism::FolderLooks, ServedWork::Tail(ALIKE)),
    (Mechanism::UntoldReads, ServedWork::Tail(OVERLAY)),
];

/// Runs all pairs.
pub(super) fn run(options: &BenchOptions, stop: &StopFlag, points: &mut Points) -> BenchResult<()> {
    let files = TailSite::new(TailTree::Files, options.size)?;
    let mut pairs = ServedPairs { options, stop, cpus: BenchCpus::allowed()?, points };
    for (mechanism, work) in PAIRS {
        if options.size == BenchSize::Smoke && mechanism != SMOKE_MECHANISM {
            continue;
        }
        pairs.files(mechanism, work, &files)?;
    }
    Ok(())
}

/// The parts that all pairs share.
struct ServedPairs<'a> {
    options: &'a BenchOptions,
    stop: &'a StopFlag,
    cpus: BenchCpus,
    points: &'a mut Points,
}

/// The start of a server, and the load on the server.
struct LoadedServer<'a> {
    /// The name in rows.
    work: &'static str,
    state: &'a Path,
    command: &'a dyn Fn(SocketAddr) -> BenchResult<Command>,
    target: ProbeTarget,
    /// The part of wrk's script that makes the requests.
    requests: String,
}

impl<'a> ServedPairs<'a> {
    /// The pairs of a load on files.
    fn files(&mut self, mechanism: Mechanism, work: ServedWork, site: &TailSite) -> BenchResult<()> {
        let is_overlay = work == ServedWork::Tail(OVERLAY);
        if is_overlay && !rustix::process::geteuid().is_root() {
            println!("\n******** SKIPPED: {}: only root may mount ********\n", work.name());
            return Ok(());
        }
        let (options, cpu, state) = (self.options, self.cpus.server, site.state("vermeil")?);
        let command = |address| {
            let command = servers::command(TailServer::Vermeil, options, site, &state, address, cpu)?;
            Ok(match is_overlay {
                true => servers::on_overlay(&command, &site.root(), &site.state("empty")?),
                false => command,
            })
        };
        let target = site.target(0);
        let requests = match work {
            ServedWork::Tail(name) => {
                let part = TailWork::ALL.into_iter().find(|part| part.name == name);
                site.draw(part.expect("a part of bench tail"), options.size)?;
                site.requests()
            }
            ServedWork::Connections => format!(
                "request = function() return wrk.format(nil, {:?}, {{ Connection = \"close\" }}) end\n",
                target.path
            ),
        };
        let server = LoadedServer { work: work.name(), state: &state, command: &command, target, requests };
        self.rounds(mechanism, &server)
    }

    /// The pairs of one mechanism.
    fn rounds(&mut self, mechanism: Mechanism, server: &LoadedServer<'_>) -> BenchResult<()> {
        for round in 0..self.options.rounds {
            let mut order = [None, Some(mechanism)];
            order.rotate_left(round % 2);
            self.pair(order, server)?;
        }
        Ok(())
    }

    /// One start of the server with and one without a mechanism, and the same load on both, in
    /// [`TURNS`] short turns.
    fn pair(&mut self, order: [Option<Mechanism>; 2], server: &LoadedServer<'_>) -> BenchResult<()> {
        let requests = &server.requests;
        let started = [self.start(order[0], server)?, self.start(order[1], server)?];
        for visited in &started {
            // Fills the caches.
            visited.run(requests, self.options.duration)?;
        }
        let mut sums = [TurnSum::default(); 2];
        for turn in 0..TURNS {
            for place in [turn % 2, 1 - turn % 2] {
                self.stop.check()?;
                let turn = started[place].measured(requests, self.options.duration / TURN_PART)?;
                sums[place].add(turn);
            }
        }
        for ((without, visited), sum) in order.into_iter().zip(started).zip(sums) {
            let calls = visited.calls(requests, self.options.duration)?;
            let mut numbers = sum.numbers().to_vec();
            numbers.extend(calls.map(|calls| (CALLS, "calls", calls)));
            keep(self.points, (server.work, variant(without)), &numbers);
            eprintln!("{:<36} {:<24} {numbers:.2?}", server.work, variant(without));
            visited.process.stop()?;
        }
        Ok(())
    }

    /// Starts the server.
    fn start(&self, without: Option<Mechanism>, server: &LoadedServer<'_>) -> BenchResult<VisitedServer<'a>> {
        let (network, address) = (&BenchNetwork::Loopback, BenchNetwork::Loopback.free_address()?);
        let mut command = (server.command)(address)?;
        command.env(VARIABLE, switched_off(without));
        let process = PeerProcess::start("vermeil", command, server.state)?;
        process.wait_until_listening(network, address)?;
        Ok(VisitedServer {
            process,
            state: server.state.to_owned(),
            address,
            client_cpu: self.cpus.client,
            target: server.target.clone(),
            stop: self.stop,
        })
    }
}

/// The turns of one server.
#[derive(Clone, Copy, Debug, Default)]
struct TurnSum {
    requests: f64,
    cpu_us: f64,
    seconds: f64,
    /// The sum of the turns' percentiles.
    p99_us: f64,
}

impl TurnSum {
    fn add(&mut self, (outcome, cpu): (WrkOutcome, RequestCpuTime)) {
        self.requests += outcome.requests as f64;
        self.cpu_us += cpu.server_us * outcome.requests as f64;
        self.seconds += outcome.duration_us as f64 / 1e6;
        self.p99_us += outcome.p99_us as f64;
    }

    /// The numbers of a request.
    fn numbers(&self) -> [(&'static str, &'static str, f64); 3] {
        [
            (CPU, "us", self.cpu_us / self.requests),
            (RATE, "1/s", self.requests / self.seconds),
            (P99, "us", self.p99_us / TURNS as f64),
        ]
    }
}
