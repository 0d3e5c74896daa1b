//! Whole servers running the same program by CGI: Vermeil, Apache in two ways, lighttpd, and nginx
//! with fcgiwrap.
//!
//! Each server shares one cpu with its programs, and the load has the other; two of the servers are
//! also tried on all cpus. *Thin* is a freshly started server. *Fat* is a server that holds
//! gigabytes on 4 KB pages and thousands of descriptors, like a server after a while of caching and
//! serving. A preloaded library fills the master of a server whose workers inherit memory; Vermeil
//! is filled after its start, because Vermeil starts its spawner first. The measured cost is the
//! time that the cpu was not idle, because ended programs are in no process's account. A peer's
//! late, wrong or missing answer is a result; the same from Vermeil ends the bench.

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use super::configured::{ServerPlaces, apache, is_root, lighttpd, nginx};
use super::programs::CompiledPrograms;
use super::symbols::{self, CpuProfile, PerfRecording};
use super::{CONNECTIONS, floor};
use crate::machine::BenchCpus;
use crate::measure::CoreTime;
use crate::network::{BenchNetwork, Spread};
use crate::options::BenchOptions;
use crate::peers::find_program;
use crate::peers::process::PeerProcess;
use crate::points::{PointKey, Points};
use crate::probe::ProbeTarget;
use crate::size::BenchSize;
use crate::stop::StopFlag;
use crate::wrk::{Wrk, WrkLoad, WrkOutcome};
use crate::{BenchError, BenchResult};

/// Starts of a peer that fails to listen, because Apache's `mod_cgid` failed once in some sixty
/// starts without an error message.
const STARTS: u32 = 3;

/// The metric of a run without any answer: the length of the run in seconds.
pub(super) const UNANSWERED: &str = "unanswered_s";
/// Load before the measured part of a run.
const WARM_UP: Duration = Duration::from_millis(300);
/// The memory in MB and the descriptors of a fat server.
const FAT_MB: usize = 4096;
const FAT_SOCKETS: usize = 19_000;
/// Filling gigabytes takes a second or two on an idle machine.
const FAT_MAX: Duration = Duration::from_secs(60);
/// Waiting processes of a server with a fixed number: more than there are connections, because
/// connections are kept alive.
pub(super) const WORKERS: usize = 8;

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgiServer {
    /// Vermeil, through its spawner.
    Vermeil,
    /// Apache with prefork and mod_cgi: a worker forks.
    ApacheCgi,
    /// Apache with prefork and mod_cgid: the programs are forked by a daemon, and the daemon was
    /// forked by the master.
    ApacheCgid,
    /// lighttpd with mod_cgi.
    Lighttpd,
    /// nginx with fcgiwrap.
    Fcgiwrap,
}

impl CgiServer {
    /// Every server, in the order of the tables.
    pub const ALL: [Self; 5] =
        [Self::Vermeil, Self::ApacheCgi, Self::ApacheCgid, Self::Lighttpd, Self::Fcgiwrap];

    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vermeil => "vermeil",
            Self::ApacheCgi => "apache-cgi",
            Self::ApacheCgid => "apache-cgid",
            Self::Lighttpd => "lighttpd",
            Self::Fcgiwrap => "nginx-fcgiwrap",
        }
    }

    /// Required programs and their Debian packages.
    fn needs(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Vermeil => &[],
            Self::ApacheCgi | Self::ApacheCgid => &[("apache2", "apache2-bin")],
            Self::Lighttpd => &[("lighttpd", "lighttpd")],
            Self::Fcgiwrap => &[("nginx", "nginx"), ("fcgiwrap", "fcgiwrap")],
        }
    }
}

/// How much a server holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerWeight {
    Thin,
    Fat,
}

/// The subject of a row.
#[derive(Clone, Copy, Debug)]
struct CgiSubject {
    /// The program's name.
    program: &'static str,
    path: &'static str,
    weight: ServerWeight,
    spread: Spread,
}

const RUNS: [CgiSubject; 6] = {
    const fn run(
        program: &'static str,
        path: &'static str,
        weight: ServerWeight,
        spread: Spread,
    ) -> CgiSubject {
        CgiSubject { program, path, weight, spread }
    }
    const HELLO: &str = "/cgi-bin/hello";
    const PHPINFO: &str = "/cgi-bin/info.php";
    [
        run("hello thin", HELLO, ServerWeight::Thin, Spread::OneCpu),
        run("hello fat", HELLO, ServerWeight::Fat, Spread::OneCpu),
        run("phpinfo thin", PHPINFO, ServerWeight::Thin, Spread::OneCpu),
        run("phpinfo fat", PHPINFO, ServerWeight::Fat, Spread::OneCpu),
        run("hello thin, all cpus", HELLO, ServerWeight::Thin, Spread::AllCpus),
        run("hello fat, all cpus", HELLO, ServerWeight::Fat, Spread::AllCpus),
    ]
};

/// Servers that are tried on all cpus: Vermeil, and the fastest peer.
const ON_ALL_CPUS: [CgiServer; 2] = [CgiServer::Vermeil, CgiServer::Lighttpd];

/// Runs every program on every server, round after round. The first round also records the cpu's
/// symbols.
pub(super) fn run(
    options: &BenchOptions,
    programs: &CompiledPrograms,
    stop: &StopFlag,
    points: &mut Points,
) -> BenchResult<Vec<CpuProfile>> {
    if find_program("wrk").is_none() {
        return Err(BenchError::Missing { program: "wrk", package: "wrk" });
    }
    let cpus = BenchCpus::allowed()?;
    let bench = CgiBench {
        options,
        programs,
        cpus,
        wrk: Wrk::new(&programs.state_folder("load")?, cpus.client)?,
        stop,
    };
    let servers = servers_here(options.size)?;
    let runs = RUNS.into_iter().filter(|run| match options.size {
        BenchSize::Full => true,
        BenchSize::Smoke => {
            run.weight == ServerWeight::Thin
                && (!run.path.ends_with(".php") || find_program("php-cgi").is_some())
        }
    });
    let mut profiles = Vec::new();
    let records = symbols::are_here();
    for round in 0..options.rounds {
        for run @ CgiSubject { program, path, weight, spread } in runs.clone() {
            if weight == ServerWeight::Thin && spread == Spread::OneCpu {
                let file = programs.root().join(&path[1..]);
                floor::run(cpus.server, (program, &file), options.duration, stop, points)?;
            }
            let mut order = servers.clone();
            order.rotate_left(round % servers.len());
            order.retain(|server| spread == Spread::OneCpu || ON_ALL_CPUS.contains(server));
            for server in order {
                let is_recorded = round == 0 && records && spread == Spread::OneCpu;
                let looks = if is_recorded { Looks::AtSymbols } else { Looks::AtTimes };
                let sample = bench.sample(server, run, looks)?;
                eprintln!(
                    "round {}/{}  {program:<13} {:<15} {sample}",
                    round + 1,
                    options.rounds,
                    server.name()
                );
                sample.keep(run, server, points);
                if let Some(symbols) = sample.symbols {
                    profiles.push(CpuProfile { program: program.to_owned(), server: server.name(), symbols });
                }
            }
        }
    }
    Ok(profiles)
}

/// The installed servers; in a full run all must be installed.
fn servers_here(size: BenchSize) -> BenchResult<Vec<CgiServer>> {
    let mut here = Vec::new();
    for server in CgiServer::ALL {
        match server.needs().iter().find(|(program, _)| find_program(program).is_none()) {
            None => here.push(server),
            Some(&(program, package)) if size == BenchSize::Full => {
                return Err(BenchError::Missing { program, package });
            }
            Some(_) => eprintln!("SKIPPED: {} is not installed", server.name()),
        }
    }
    Ok(here)
}

/// The observation during a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looks {
    AtTimes,
    AtSymbols,
}

/// The measurement of one run.
struct CgiSample {
    outcome: WrkOutcome,
    /// How long answers were waited for.
    duration: Duration,
    /// The busy time of the cpu, and the part in the kernel.
    busy: Duration,
    system: Duration,
    symbols: Option<Vec<(String, f64)>>,
}

impl CgiSample {
    fn keep(&self, run: CgiSubject, server: CgiServer, points: &mut Points) {
        let mut push = |metric, unit, value| {
            let key = PointKey { program: run.program.into(), variant: server.name().into(), metric, unit };
            points.push(key, value);
        };
        if run.spread == Spread::OneCpu {
            push("system_percent", "%", self.system_percent());
        }
        // Without answers there are neither rates nor latencies.
        if self.is_silent() {
            return push(UNANSWERED, "s", self.duration.as_secs_f64());
        }
        if run.spread == Spread::OneCpu {
            push("per_cpu_s", "req/cpu s", self.per_cpu_s());
        }
        push("per_s", "req/s", self.outcome.per_second());
        push("failures", "req", self.outcome.failures() as f64);
        push("p50_us", "us", self.outcome.p50_us as f64);
        push("p99_us", "us", self.outcome.p99_us as f64);
    }

    /// Returns whether there was no answer at all: the run was too short for the server.
    fn is_silent(&self) -> bool {
        self.outcome.requests == 0
    }

    fn per_cpu_s(&self) -> f64 {
        self.outcome.requests as f64 / self.busy.as_secs_f64()
    }

    fn system_percent(&self) -> f64 {
        100.0 * self.system.as_secs_f64() / self.busy.as_secs_f64()
    }
}

impl fmt::Display for CgiSample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_silent() {
            let (waited, failed) = (self.duration, self.outcome.failures());
            return write!(f, "no answer within {waited:?}; {failed} connections failed");
        }
        write!(
            f,
            "{:>8.0} requests per cpu second  {:>8.0} req/s  {:>3.0} % system  {} failed",
            self.per_cpu_s(),
            self.outcome.per_second(),
            self.system_percent(),
            self.outcome.failures()
        )
    }
}

struct CgiBench<'a> {
    options: &'a BenchOptions,
    programs: &'a CompiledPrograms,
    cpus: BenchCpus,
    wrk: Wrk,
    stop: &'a StopFlag,
}

impl CgiBench<'_> {
    /// One run: start the server, make the server large, check, warm up, measure, stop.
    fn sample(&self, server: CgiServer, run: CgiSubject, looks: Looks) -> BenchResult<CgiSample> {
        let CgiSubject { path, weight, .. } = run;
        let network = BenchNetwork::Loopback;
        let state = self.programs.state_folder(server.name())?;
        let behind = self.start_behind(server, &state)?;
        let (process, address) = self.start(server, run, &network, &state)?;
        if weight == ServerWeight::Fat {
            self.fatten(server, &process)?;
        }
        let target = ProbeTarget::to(path);
        let drive = |duration| {
            let load = WrkLoad { connections: CONNECTIONS, duration };
            self.wrk.run(&network, address, &target, load, self.stop)
        };
        let warm = drive(WARM_UP.min(self.options.duration))?;
        let recording = (looks == Looks::AtSymbols)
            .then(|| PerfRecording::start(self.cpus.server, self.options.duration, &state))
            .transpose()?;
        let before = CoreTime::of(self.cpus.server)?;
        let outcome = drive(self.options.duration)?;
        let after = CoreTime::of(self.cpus.server)?;
        let (busy, system) = (after.busy_since(&before), after.system_since(&before));
        let symbols = recording.map(PerfRecording::symbols).transpose()?;
        let problem = warm.problem(200).filter(|_| warm.requests > 0).or_else(|| outcome.problem(200));
        if let Some(problem) = problem.filter(|_| server == CgiServer::Vermeil) {
            return Err(process.failure(&format!("under load of {path}: {problem}")));
        }
        process.stop()?;
        if let Some(behind) = behind {
            behind.stop()?;
        }
        Ok(CgiSample { outcome, duration: self.options.duration, busy, system, symbols })
    }

    /// Starts the server; repeats the start a few times if a peer does not listen.
    fn start(
        &self,
        server: CgiServer,
        run: CgiSubject,
        network: &BenchNetwork,
        state: &Path,
    ) -> BenchResult<(PeerProcess, SocketAddr)> {
        let mut left = if server == CgiServer::Vermeil { 1 } else { STARTS };
        loop {
            let address = network.free_address()?;
            let process =
                PeerProcess::start(server.name(), self.command(server, run, address, state)?, state)?;
            left -= 1;
            match process.wait_until_listening(network, address) {
                Ok(()) => return Ok((process, address)),
                Err(error) if left == 0 => return Err(error),
                Err(error) => eprintln!("{error}; it is started again"),
            }
            self.stop.check()?;
        }
    }

    /// Waits until the server holds the memory and descriptors of a fat server.
    fn fatten(&self, server: CgiServer, process: &PeerProcess) -> BenchResult<()> {
        if server == CgiServer::Vermeil {
            kill_process(process.group(), Signal::USR2)
                .map_err(|errno| BenchError::thing("signal", server.name())(errno.into()))?;
        }
        let deadline = Instant::now() + FAT_MAX;
        let status = format!("/proc/{}/status", process.group().as_raw_nonzero());
        let is_fat = || {
            let text = fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let kb = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<usize>().ok());
            kb.is_some_and(|kb| kb / 1024 >= FAT_MB)
        };
        while !is_fat() {
            self.stop.check()?;
            if Instant::now() > deadline {
                return Err(process.failure("does not grow"));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Starts the process behind a server that cannot start programs.
    fn start_behind(&self, server: CgiServer, state: &Path) -> BenchResult<Option<PeerProcess>> {
        if server != CgiServer::Fcgiwrap {
            return Ok(None);
        }
        let socket = state.join("fcgiwrap.sock");
        let _gone_already = fs::remove_file(&socket);
        let folder = self.programs.state_folder("fcgiwrap")?;
        let mut command = BenchNetwork::Loopback.server_command("sh", self.cpus.server);
        // nginx under any user must be able to connect.
        command.arg("-c").arg(format!("umask 0; exec fcgiwrap -c {WORKERS} -s unix:{}", socket.display()));
        let process = PeerProcess::start("fcgiwrap", command, &folder)?;
        let deadline = Instant::now() + FAT_MAX;
        while !socket.exists() {
            if Instant::now() > deadline {
                return Err(process.failure("makes no socket"));
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(Some(process))
    }

    fn command(
        &self,
        server: CgiServer,
        run: CgiSubject,
        address: SocketAddr,
        state: &Path,
    ) -> BenchResult<Command> {
        let mut command = BenchNetwork::Loopback.spread_command("env", self.cpus.server, run.spread);
        if run.weight == ServerWeight::Fat {
            let when = if server == CgiServer::Vermeil { "signal" } else { "start" };
            command.arg(format!("LD_PRELOAD={}", self.programs.fat().display()));
            command.args([format!("FAT_MB={FAT_MB}"), format!("FAT_SOCKETS={FAT_SOCKETS}")]);
            command.arg(format!("FAT_WHEN={when}"));
        }
        let root = self.programs.root();
        let place = ServerPlaces { root: &root, state, address };
        let written = |name: &str, text: String| {
            let path = state.join(name);
            fs::write(&path, text).map_err(BenchError::path("write", &path))?;
            Ok::<_, BenchError>(path)
        };
        let program = |name| find_program(name).unwrap_or_else(|| name.into());
        match server {
            CgiServer::Vermeil => {
                command.arg(&self.options.vermeil).arg("serve").arg(&root);
                command.args(["--listen", &address.to_string(), "--log", "off", "--cgi", "/cgi-bin/"]);
                if run.spread == Spread::OneCpu {
                    let cpu = self.cpus.server;
                    command.args(["--cores", &format!("{cpu}-{cpu}")]);
                }
                if is_root() {
                    command.args(["--cgi-user", "nobody"]);
                }
            }
            CgiServer::ApacheCgi | CgiServer::ApacheCgid => {
                let conf = written("apache.conf", apache(server, place))?;
                command.arg(program("apache2")).arg("-f").arg(conf).args(["-D", "FOREGROUND"]);
            }
            CgiServer::Lighttpd => {
                let conf = written("lighttpd.conf", lighttpd(place))?;
                command.arg(program("lighttpd")).arg("-D").arg("-f").arg(conf);
            }
            CgiServer::Fcgiwrap => {
                let conf = written("nginx.conf", nginx(place))?;
                command.arg(program("nginx")).arg("-p").arg(state).arg("-c").arg(conf);
                command.arg("-e").arg(state.join("error.log"));
            }
        }
        Ok(command)
    }
}
