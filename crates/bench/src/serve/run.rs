//! One run of one server, and the loops around the runs: tuning first, then rounds of all servers.
//!
//! A run starts the server, checks one answer, warms the server up, applies the load, reads the
//! cost, and stops the server. If anything goes wrong in a run, its numbers are discarded and the
//! bench ends with the reason.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::machine::BenchCpus;
use crate::measure::{CoreTime, CpuTime, MachineTime};
use crate::network::{BenchNetwork, Veth};
use crate::peers::process::PeerProcess;
use crate::peers::{PeerSetting, apache, find_program, floor, nginx, vermeil};
use crate::probe::{self, ProbeAnswer, ProbeTarget};
use crate::serve::ServeBenchOptions;
use crate::serve::plan::{PacketWay, RequestKind, ServeProgram, ServedBy};
use crate::serve::tune::{Tuning, cheapest, ways_of};
use crate::site::BenchSite;
use crate::size::BenchSize;
use crate::stop::StopFlag;
use crate::wrk::{Wrk, WrkLoad, WrkOutcome};
use crate::{BenchError, BenchResult};

/// Load before the measured part of a run, to fill caches and buffers; far longer than a server's
/// first hundred requests need.
const WARM_UP: Duration = Duration::from_millis(200);
/// Load of one tuning run: enough to see differences above a tenth, because smaller differences are
/// not worth tuning.
const TUNE_DURATION: Duration = Duration::from_millis(300);
/// The condition sent to a floor, which does not read the condition: as long as a server's usual
/// tag.
const FLOOR_TAG: &str = "\"6560a1b2-400\"";

/// The measurement of one run.
#[derive(Clone, Copy, Debug)]
pub struct ServeSample {
    /// Microseconds of cpu per request.
    pub cpu_us: f64,
    /// Microseconds of cpu per request, the load's included.
    pub both_us: f64,
    /// Requests per second.
    pub per_s: f64,
    /// Median latency in microseconds.
    pub p50_us: f64,
    /// 99th percentile of latency in microseconds.
    pub p99_us: f64,
    /// The share of user mode in the server's own time.
    pub user_share: Option<f64>,
    /// The harness's share of one cpu during the run.
    pub harness_share: f64,
    /// Other programs' share of the machine during the run; known over loopback only, because
    /// elsewhere the kernel charges received packets to no process.
    pub others_share: Option<f64>,
}

/// The rounds of every program on every server.
pub type ServeCells = BTreeMap<(ServeProgram, ServedBy), Vec<ServeSample>>;

/// Everything a run needs.
pub struct ServeBench<'a> {
    pub(super) options: &'a ServeBenchOptions,
    pub(super) cpus: BenchCpus,
    pub(super) networks: Vec<BenchNetwork>,
    pub(super) servers: Vec<ServedBy>,
    pub(super) tuning: Tuning,
    pub(super) answers: BTreeMap<RequestKind, ProbeAnswer>,
    pub(super) reference: Option<ServedBy>,
    stop: &'a StopFlag,
    site: BenchSite,
    wrk: Wrk,
}

impl<'a> ServeBench<'a> {
    /// Prepares the folder, the networks and the list of servers this machine can run.
    pub fn new(options: &'a ServeBenchOptions, stop: &'a StopFlag) -> BenchResult<Self> {
        if find_program("wrk").is_none() {
            return Err(BenchError::Missing { program: "wrk", package: "wrk" });
        }
        let cpus = BenchCpus::allowed()?;
        if !cpus.are_apart() {
            eprintln!("WARNING: one cpu only: server and load share it, and the numbers are about both");
        }
        let files = RequestKind::ALL.map(RequestKind::file);
        let files: Vec<(&str, usize)> =
            files.into_iter().filter_map(|(name, size)| Some((name, size?))).collect();
        let site = BenchSite::new(&files)?;
        let wrk = Wrk::new(&site.state_folder("load")?, cpus.client)?;
        let mut bench = Self {
            options,
            cpus,
            networks: networks(cpus),
            servers: Vec::new(),
            tuning: Tuning::default(),
            answers: BTreeMap::new(),
            reference: None,
            stop,
            site,
            wrk,
        };
        bench.servers = bench.servers_here()?;
        bench.ask_reference()?;
        Ok(bench)
    }

    /// The requested servers; in the smoke size, only the installed servers.
    fn servers_here(&self) -> BenchResult<Vec<ServedBy>> {
        let is_here = |server: &ServedBy| match server {
            ServedBy::Nginx | ServedBy::NginxSendfile => find_program("nginx").is_some(),
            ServedBy::Apache => find_program("apache2").or_else(|| find_program("httpd")).is_some(),
            ServedBy::Vermeil(_) | ServedBy::Floor(_) => true,
        };
        let (here, absent): (Vec<ServedBy>, Vec<ServedBy>) =
            self.options.servers.iter().copied().partition(is_here);
        match absent.first() {
            Some(ServedBy::Nginx | ServedBy::NginxSendfile) if self.options.size == BenchSize::Full => {
                return Err(BenchError::Missing { program: "nginx", package: "nginx" });
            }
            Some(_) if self.options.size == BenchSize::Full => {
                return Err(BenchError::Missing { program: "apache2", package: "apache2-bin" });
            }
            _ => {}
        }
        for server in absent {
            eprintln!("SKIPPED: {} is not installed", server.name());
        }
        Ok(here)
    }

    /// Takes the size of every response from the first real server, because floors must send the
    /// same number of bytes.
    fn ask_reference(&mut self) -> BenchResult<()> {
        self.reference = self.servers.iter().copied().find(|server| !server.is_floor());
        let Some(reference) = self.reference else {
            return Err(BenchError::form(
                "the list of servers",
                "a floor needs a real server to be as big as",
            ));
        };
        for request in RequestKind::ALL {
            let program = ServeProgram { way: PacketWay::Loopback, request };
            let running = self.start(reference, program, &BenchNetwork::Loopback)?;
            let target = running.target(reference, request)?;
            let answer = running.checked_answer(request, &target)?;
            running.process.stop()?;
            self.answers.insert(request, answer);
        }
        Ok(())
    }

    /// Finds the cheapest way to send each body for the servers with a choice; does nothing in the
    /// smoke size.
    pub fn tune(&mut self) -> BenchResult<()> {
        if self.options.size == BenchSize::Smoke {
            return Ok(());
        }
        let load = WrkLoad { duration: TUNE_DURATION.min(self.options.duration), ..self.options.load() };
        for network in 0..self.networks.len() {
            let programs = ServeProgram::over(PacketWay::of(&self.networks[network]));
            for program in programs.into_iter().filter(|&program| program.tuned_as() == program) {
                for server in self.servers.clone() {
                    let ways = ways_of(server);
                    if ways.is_empty() {
                        continue;
                    }
                    let best = cheapest(ways.len(), |way| {
                        self.tuning.choose(server, program, way);
                        Ok(self.sample(server, program, &self.networks[network], load)?.cpu_us)
                    })?;
                    self.tuning.choose(server, program, best);
                    eprintln!("tuning  {:<11}  {:<6}  {}", server.name(), program.name(), ways[best]);
                }
            }
        }
        Ok(())
    }

    /// Runs everything, round after round.
    pub fn rounds(&self) -> BenchResult<ServeCells> {
        let mut cells = ServeCells::new();
        for round in 0..self.options.rounds {
            for network in &self.networks {
                for program in ServeProgram::over(PacketWay::of(network)) {
                    let mut order = self.servers.clone();
                    order.rotate_left(round % self.servers.len());
                    for server in order {
                        let sample = self.sample(server, program, network, self.options.load())?;
                        eprintln!(
                            "round {}/{}  {:<6}  {:<13}  {:>8.2} µs cpu  {:>8.0} req/s",
                            round + 1,
                            self.options.rounds,
                            program.name(),
                            server.name(),
                            sample.cpu_us,
                            sample.per_s
                        );
                        cells.entry((program, server)).or_default().push(sample);
                    }
                }
            }
        }
        Ok(cells)
    }

    /// One run, repeated once after a failure, because a connection lost to other work on the
    /// machine must not cost hours of rounds.
    fn sample(
        &self,
        server: ServedBy,
        program: ServeProgram,
        network: &BenchNetwork,
        load: WrkLoad,
    ) -> BenchResult<ServeSample> {
        self.run(server, program, network, load).or_else(|error| {
            self.stop.check()?;
            eprintln!("again   {:<11}  {:<6}  {error}", server.name(), program.name());
            self.run(server, program, network, load)
        })
    }

    /// One run: start, check, warm up, measure, stop.
    fn run(
        &self,
        server: ServedBy,
        program: ServeProgram,
        network: &BenchNetwork,
        load: WrkLoad,
    ) -> BenchResult<ServeSample> {
        let request = program.request;
        let running = self.start(server, program, network)?;
        let target = running.target(server, request)?;
        let answer = running.checked_answer(request, &target)?;
        let drive = |load| self.wrk.run(network, running.address, &target, load, self.stop);
        drive(WrkLoad { duration: WARM_UP.min(load.duration), ..load })?;

        let before = ServeReading::take(&running.process, self.cpus)?;
        let outcome = drive(load)?;
        let after = ServeReading::take(&running.process, self.cpus)?;

        let problem = outcome.problem(request.status()).or_else(|| wrong_bytes(&outcome, &answer, load));
        if let Some(problem) = problem {
            return Err(running.process.failure(&format!("under load of {}: {problem}", request.name())));
        }
        running.process.stop()?;
        let own = after.group - before.group;
        let (cpu, both) = match network {
            BenchNetwork::Loopback => (own.run, own.run + after.machine.children_since(&before.machine)),
            // Most of the receive work is charged to no process, so here the cost is the time of
            // the core, and of both cores.
            BenchNetwork::Veth(_) => {
                (after.core.busy_since(&before.core), after.machine.busy_since(&before.machine))
            }
        };
        let per_request = |time: Duration| time.as_secs_f64() * 1e6 / outcome.requests as f64;
        let harness = after.harness - before.harness;
        let others = after.machine.others_since(&before.machine, own.run + harness.run);
        Ok(ServeSample {
            cpu_us: per_request(cpu),
            both_us: per_request(both),
            per_s: outcome.per_second(),
            p50_us: outcome.p50_us as f64,
            p99_us: outcome.p99_us as f64,
            user_share: own.user_share(),
            harness_share: harness.run.as_secs_f64() / load.duration.as_secs_f64(),
            others_share: matches!(network, BenchNetwork::Loopback).then_some(others),
        })
    }

    /// Starts `server`, set up for `program`, and waits until the server listens.
    fn start<'n>(
        &self,
        server: ServedBy,
        program: ServeProgram,
        network: &'n BenchNetwork,
    ) -> BenchResult<ServeRunning<'n>> {
        let address = network.free_address()?;
        let state = self.site.state_folder(server.name())?;
        let root = self.site.root();
        let setting = PeerSetting { network, address, cpu: self.cpus.server, root: &root, state: &state };
        let command = match server {
            ServedBy::Vermeil(io) => vermeil::command(setting, &self.options.vermeil, io),
            ServedBy::Nginx => {
                let sending = self.tuning.way(server, program, &nginx::NginxSending::ALL);
                nginx::command(setting, sending.unwrap_or_default())?
            }
            ServedBy::NginxSendfile => nginx::command(setting, nginx::NginxSending::Sendfile)?,
            ServedBy::Apache => {
                let sending = self.tuning.way(server, program, &apache::ApacheSending::ALL);
                apache::command(setting, sending.unwrap_or_default())?
            }
            ServedBy::Floor(io) => {
                let answer = &self.answers[&program.request];
                let body = (self.floor_sending(server, program), root.join(program.request.file().0));
                floor::command(setting, &self.options.floor, io, answer, (body.0, &body.1))
            }
        };
        let process = PeerProcess::start(server.name(), command, &state)?;
        process.wait_until_listening(network, address)?;
        Ok(ServeRunning { process, network, address })
    }

    /// The floor's way to send the body of `program`. The floor can send only a whole file from the
    /// page cache; other bodies are short.
    fn floor_sending(&self, server: ServedBy, program: ServeProgram) -> floor::FloorSending {
        let untuned = if program.request == RequestKind::OneM {
            floor::FloorSending::Apart
        } else {
            floor::FloorSending::Memory
        };
        if program.request.status() != 200 {
            return floor::FloorSending::Memory;
        }
        self.tuning.way(server, program, &floor::FloorSending::ALL).unwrap_or(untuned)
    }
}

/// The counters before or after a run.
struct ServeReading {
    group: CpuTime,
    core: CoreTime,
    harness: CpuTime,
    machine: MachineTime,
}

impl ServeReading {
    fn take(process: &PeerProcess, cpus: BenchCpus) -> BenchResult<Self> {
        let group = CpuTime::of_group(process.group())?;
        let (core, machine) = (CoreTime::of(cpus.server)?, MachineTime::now()?);
        Ok(Self { group, core, harness: CpuTime::of_self()?, machine })
    }
}

/// A server that listens.
struct ServeRunning<'n> {
    process: PeerProcess,
    network: &'n BenchNetwork,
    address: SocketAddr,
}

impl ServeRunning<'_> {
    /// The request to `server` for `request`: with the server's entity tag if the request is
    /// conditional.
    fn target(&self, server: ServedBy, request: RequestKind) -> BenchResult<ProbeTarget> {
        let mut target = ProbeTarget::to(&format!("/{}", request.file().0));
        if request == RequestKind::NotModified {
            let tag = if server.is_floor() { Some(FLOOR_TAG.to_owned()) } else { self.fetch(&target)?.etag };
            target.if_none_match = Some(tag.ok_or_else(|| self.process.failure("sends no entity tag"))?);
        }
        Ok(target)
    }

    /// Fetches one answer and checks its status and body.
    fn checked_answer(&self, request: RequestKind, target: &ProbeTarget) -> BenchResult<ProbeAnswer> {
        let answer = self.fetch(target)?;
        let status = request.status();
        let body = if status == 200 { request.file().1.map(|size| size as u64) } else { None };
        if answer.status != status || body.is_some_and(|bytes| bytes != answer.body_bytes) {
            let got = format!("status {} with {} bytes", answer.status, answer.body_bytes);
            return Err(self.process.failure(&format!("answers {} with {got}", request.name())));
        }
        Ok(answer)
    }

    fn fetch(&self, target: &ProbeTarget) -> BenchResult<ProbeAnswer> {
        let answer = self.network.from_client(|| probe::fetch(self.address, target))?;
        answer.map_err(|error| self.process.failure(&format!("GET {}: {error}", target.path)))
    }
}

/// The networks of this machine: the loopback, and a private pair if we have the rights to make the
/// pair.
fn networks(cpus: BenchCpus) -> Vec<BenchNetwork> {
    let mut networks = vec![BenchNetwork::Loopback];
    let pair = if !rustix::process::geteuid().is_root() {
        Err("network namespaces need root".to_owned())
    } else if !cpus.are_apart() {
        Err("it needs two cpus".to_owned())
    } else {
        Veth::new(cpus).map_err(|error| error.to_string())
    };
    match pair {
        Ok(veth) => networks.push(BenchNetwork::Veth(veth)),
        Err(reason) => eprintln!("SKIPPED: the receive path on the server's core (+rx): {reason}"),
    }
    networks
}

/// Checks that the received bytes are the bytes of the responses, apart from bytes in flight at the
/// end.
fn wrong_bytes(outcome: &WrkOutcome, answer: &ProbeAnswer, load: WrkLoad) -> Option<String> {
    let one = answer.head_bytes as u64 + answer.body_bytes;
    let expected = outcome.requests * one;
    let on_the_way = load.connections as u64 * one;
    let off = outcome.bytes.abs_diff(expected);
    // The heads of two responses may differ by a few bytes, never by a tenth.
    let tolerated = on_the_way + outcome.requests * (answer.head_bytes as u64 / 10);
    (off > tolerated).then(|| format!("{} bytes for {} responses of {one}", outcome.bytes, outcome.requests))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_bodies_are_noticed() {
        let answer = ProbeAnswer { status: 200, head_bytes: 200, body_bytes: 1024, etag: None };
        let load = WrkLoad { connections: 64, duration: WARM_UP };
        let outcome = |bytes: u64| {
            let json = format!(
                r#"{{"requests":1000,"duration_us":1,"bytes":{bytes},"p50_us":1,"p99_us":1,
                "connect":0,"read":0,"write":0,"timeout":0,"status":0}}"#
            );
            serde_json::from_str::<WrkOutcome>(&json).expect("the script's form")
        };
        assert_eq!(wrong_bytes(&outcome(1224 * 1000), &answer, load), None);
        assert_eq!(wrong_bytes(&outcome(1224 * 1050), &answer, load), None);
        assert!(wrong_bytes(&outcome(1024 * 1000), &answer, load).is_some());
    }
}
