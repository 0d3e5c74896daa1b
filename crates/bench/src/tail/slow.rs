//! Files that are not in memory, on a disk that answers each read after some milliseconds.
//!
//! Two questions: how much do such files delay requests for a file in memory, and how many such
//! files does a server answer. Each server runs on one cpu; all load and the disk run on the other.
//! Folders and metadata are in memory.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::servers::{TailServer, on_overlay};
use super::site::{FOLDER_FILES, TailSite, TailTree};
use crate::load::steady::record_of;
use crate::load::vermeil_load;
use crate::machine::BenchCpus;
use crate::network::BenchNetwork;
use crate::options::BenchOptions;
use crate::peers::find_program;
use crate::peers::nginx::temporary;
use crate::peers::process::PeerProcess;
use crate::points::{PointKey, Points};
use crate::probe::ProbeTarget;
use crate::size::BenchSize;
use crate::slow_disk::SlowDisk;
use crate::stop::StopFlag;
use crate::wrk::{Wrk, WrkLoad, WrkOutcome};
use crate::{BenchError, BenchResult};

/// The name in points.
pub(super) const NAME: &str = "files on a slow disk";
/// The same where the servers see the disk through overlayfs.
pub(super) const OVERLAY_NAME: &str = "files on a slow disk, overlayfs";
/// The time of the disk for each read: of a hard disk, or of a disk over a network.
pub(super) const DELAY: Duration = Duration::from_millis(10);
/// Requests a second for the file in memory: a small part of a cpu.
pub(super) const HOT_PER_S: u32 = 2_000;
const HOT_CONNECTIONS: usize = 16;
/// The time before a turn's hot requests count, in which their clients connect.
const HOT_WARM_UP: Duration = Duration::from_millis(100);
/// Clients of cold files beside the hot file, which ask for some 1,000 files a second, so that the
/// server has much cpu time left.
pub(super) const BESIDE_CONNECTIONS: usize = 16;
/// The longest pause of a client beside the hot file before a request, in milliseconds. The pauses
/// are random. Without pauses all clients ask at once whenever the disk answers, and such a burst
/// delays a hot request by the work of 16 requests, wherever the files are.
const PAUSE_MS_MAX: u32 = 10;
/// Clients of cold files alone: twice as many as nginx has threads.
pub(super) const ALONE_CONNECTIONS: usize = 64;
/// The time of one turn, with enough requests for a 99th percentile. The times of answers alone and
/// beside cold files are measured in many short turns, because other work on the machine changes a
/// percentile more than cold files do.
const TURN: Duration = Duration::from_millis(600);
/// A turn does not count if the clients of the hot file asked this much later than they should, in
/// nanoseconds, because their delay is in the times. A shorter delay concerns at most four
/// of the 1,200 requests of a turn.
const LATE_NS_MAX: u64 = 2_000_000;
/// Cold files of a turn: more than the disk answers in the turn.
const TURN_FILES: u32 = 2_000;
/// The time that the clients begin before the measurement, and end after.
const AROUND: Duration = Duration::from_millis(300);
/// The time of the run of cold files alone, in which no server answers all files.
const ALONE: Duration = Duration::from_secs(1);

/// Measures all servers. Without the right to mount, prints that the part is left out.
pub(super) fn run(options: &BenchOptions, stop: &StopFlag, points: &mut Points) -> BenchResult<()> {
    let servers = TailServer::here(options.size)?;
    let servers: Vec<_> = servers.into_iter().filter(|server| server.reads_slow_disk()).collect();
    let site = TailSite::new(TailTree::SlowFiles, options.size)?;
    let cpus = BenchCpus::allowed()?;
    let disk = match SlowDisk::new(&site.root(), site.pages(), (DELAY, cpus.client)) {
        Ok(disk) => disk,
        Err(error) => {
            println!("\n******** SKIPPED: {NAME}: {error} ********\n");
            return Ok(());
        }
    };
    let bench = SlowFiles { options, stop, site, disk, cpus };
    for file_system in [SlowFileSystem::Plain, SlowFileSystem::Overlay] {
        for round in 0..options.rounds {
            let mut order = servers.clone();
            order.rotate_left(round % servers.len());
            for server in order {
                bench.sample(server, file_system, points)?;
            }
        }
    }
    Ok(())
}

/// The file system through which a server sees the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlowFileSystem {
    /// ext4, which tells whether a read would wait.
    Plain,
    /// overlayfs over ext4, in mounts of the server's own. overlayfs cannot tell.
    Overlay,
}

impl SlowFileSystem {
    /// The name in points.
    fn name(self) -> &'static str {
        match self {
            Self::Plain => NAME,
            Self::Overlay => OVERLAY_NAME,
        }
    }
}

/// The time from a request for the hot file to the answer; `None` after too few requests.
#[derive(Clone, Copy, Debug)]
struct HotTimes {
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    /// The longest delay of the clients, in nanoseconds.
    late_ns: u64,
}

/// A started server.
struct StartedSubject {
    process: PeerProcess,
    /// The folder for wrk's script.
    state: PathBuf,
    address: SocketAddr,
}

/// The parts that all runs share.
struct SlowFiles<'a> {
    options: &'a BenchOptions,
    stop: &'a StopFlag,
    site: TailSite,
    disk: SlowDisk,
    cpus: BenchCpus,
}

impl SlowFiles<'_> {
    /// One start of one server.
    fn sample(
        &self,
        server: TailServer,
        file_system: SlowFileSystem,
        points: &mut Points,
    ) -> BenchResult<()> {
        let (name, address) = (file_system.name(), BenchNetwork::Loopback.free_address()?);
        let state = self.site.state(server.name())?;
        let command = self.command(server, &state, address)?;
        let command = match file_system {
            SlowFileSystem::Plain => command,
            SlowFileSystem::Overlay => on_overlay(&command, &self.disk.root(), &self.site.state("empty")?),
        };
        let process = PeerProcess::start(server.name(), command, &state)?;
        process.wait_until_listening(&BenchNetwork::Loopback, address)?;
        let running = StartedSubject { process, state, address };
        // The server learns of its folders, while all files are in memory.
        self.read_all()?;
        self.cold(&running, WrkLoad { connections: BESIDE_CONNECTIONS, duration: ALONE }, 0)?;
        let mut push = |metric, unit, value| {
            points
                .push(PointKey { program: name.into(), variant: server.name().into(), metric, unit }, value);
        };
        let turn = TURN.min(self.options.duration);
        for number in 0..self.options.duration.div_duration_f64(turn).round() as u32 {
            self.stop.check()?;
            let [alone, beside] = self.turn(&running, turn, number * TURN_FILES)?;
            eprintln!("{name:<32} {:<16} alone {alone:.0?}, beside {beside:.0?}", server.name());
            if self.options.size == BenchSize::Full && alone.late_ns.max(beside.late_ns) > LATE_NS_MAX {
                continue;
            }
            // The smoke size has too few requests for a percentile.
            if let (Some(alone), Some(beside)) = (alone.p50_us, beside.p50_us) {
                push("alone_p50_us", "us", alone);
                push("beside_p50_us", "us", beside);
                push("p50_growth", "ratio", beside / alone);
            }
            if let (Some(alone), Some(beside)) = (alone.p99_us, beside.p99_us) {
                push("alone_p99_us", "us", alone);
                push("beside_p99_us", "us", beside);
                push("p99_growth", "ratio", beside / alone);
            }
        }
        self.forget()?;
        let load = WrkLoad { connections: ALONE_CONNECTIONS, duration: ALONE.min(self.options.duration) };
        let cold = self.cold(&running, load, 0)?;
        if self.options.size == BenchSize::Full && cold.requests > self.site.pages() as u64 {
            return Err(running.process.failure("answered each file, so the last were in memory"));
        }
        push("cold_per_s", "1/s", cold.per_second());
        eprintln!("{name:<32} {:<16} cold {:.0} a second", server.name(), cold.per_second());
        running.process.stop()
    }

    /// The times of requests for the hot file alone, and beside clients of cold files, which begin
    /// with the file `first`.
    fn turn(&self, running: &StartedSubject, turn: Duration, first: u32) -> BenchResult<[HotTimes; 2]> {
        let alone = self.hot(running.address, turn)?;
        self.forget()?;
        let load = WrkLoad { connections: BESIDE_CONNECTIONS, duration: turn + 2 * AROUND };
        thread::scope(|scope| {
            let clients = scope.spawn(|| self.cold(running, load, first));
            thread::sleep(AROUND);
            let beside = self.hot(running.address, turn);
            clients.join().expect("the load does not panic")?;
            Ok([alone, beside?])
        })
    }

    fn command(&self, server: TailServer, state: &Path, address: SocketAddr) -> BenchResult<Command> {
        let (root, cpu) = (self.disk.root(), self.cpus.server);
        if server == TailServer::Nginx {
            let path = state.join("nginx.conf");
            fs::write(&path, nginx(&root, state, address)).map_err(BenchError::path("write", &path))?;
            let program =
                find_program("nginx").ok_or(BenchError::Missing { program: "nginx", package: "nginx" })?;
            let mut command = BenchNetwork::Loopback.server_command(program, cpu);
            command.arg("-p").arg(state).arg("-c").arg(path).arg("-e").arg(state.join("error.log"));
            return Ok(command);
        }
        let io = if server == TailServer::VermeilEpoll { "epoll" } else { "uring" };
        let path = state.join("vermeil.toml");
        let text = format!(
            "cores = \"{cpu}-{cpu}\"\nio = \"{io}\"\nlog = \"off\"\n\
             [[listener]]\naddress = \"{address}\"\n[[host]]\nnames = [\"localhost\"]\nroot = \"{}\"\n",
            root.display()
        );
        fs::write(&path, text).map_err(BenchError::path("write", &path))?;
        let mut command = BenchNetwork::Loopback.server_command(&self.options.vermeil, cpu);
        command.args(["serve", "--config"]).arg(path);
        Ok(command)
    }

    fn names(&self) -> impl Iterator<Item = String> {
        (0..self.site.pages()).map(|number| self.site.target(number).path[1..].to_owned())
    }

    fn read_all(&self) -> BenchResult<()> {
        // In turns of many threads, because each read takes its time.
        let names: Vec<_> = self.names().collect();
        thread::scope(|scope| {
            let parts = names.chunks(names.len().div_ceil(ALONE_CONNECTIONS));
            let readers: Vec<_> = parts.map(|part| scope.spawn(move || self.disk.read(part))).collect();
            readers.into_iter().try_for_each(|reader| reader.join().expect("a read does not panic"))
        })
    }

    /// Takes all files but the hot file out of memory.
    fn forget(&self) -> BenchResult<()> {
        self.disk.forget(self.names().skip(1))
    }

    /// The times of requests for the first file. The clients run before all others on their cpu, so
    /// the times are the server's.
    fn hot(&self, address: SocketAddr, turn: Duration) -> BenchResult<HotTimes> {
        let load = vermeil_load(&self.options.vermeil, self.cpus.client);
        let mut command = Command::new("chrt");
        command.args(["--fifo", "1"]).arg(load.get_program()).args(load.get_args());
        command.args(["-c", &HOT_CONNECTIONS.to_string(), "--rate", &format!("constant:{HOT_PER_S}")]);
        command.args(["--warm-up", &format!("{}ms", HOT_WARM_UP.as_millis())]);
        command.args(["-d", &format!("{}ms", turn.as_millis())]);
        command.arg(format!("http://{address}{}", self.site.target(0).path));
        let record = record_of(&mut command)?;
        if record.failed > 0 || record.good == 0 {
            return Err(BenchError::form("vermeil load", format!("{} requests failed", record.failed)));
        }
        let us = |percent| record.response.percentile(percent).map(|time| time.as_secs_f64() * 1e6);
        Ok(HotTimes { p50_us: us(50.0), p99_us: us(99.0), late_ns: record.injector.late.max_ns })
    }

    /// Asks for each file once, from the file `first` on, as far as the time suffices.
    fn cold(&self, running: &StartedSubject, load: WrkLoad, first: u32) -> BenchResult<WrkOutcome> {
        let pages = self.site.pages();
        let mut script = format!(
            r#"
local place = {first}
request = function()
  place = place + 1
  local number = place * 7919 % {pages}
  return wrk.format(nil, "/" .. math.floor(number / {FOLDER_FILES}) .. "/" .. number % {FOLDER_FILES} .. ".html")
end
"#
        );
        if load.connections == BESIDE_CONNECTIONS {
            script += &format!("delay = function() return math.random(0, {PAUSE_MS_MAX}) end\n");
        }
        let wrk = Wrk::with_requests(&running.state, self.cpus.client, &script)?;
        let target = ProbeTarget::to("/");
        let outcome = wrk.run(&BenchNetwork::Loopback, running.address, &target, load, self.stop)?;
        match outcome.problem(200) {
            Some(problem) => Err(running.process.failure(&format!("asked for cold files: {problem}"))),
            None => Ok(outcome),
        }
    }
}

/// nginx that reads files on threads.
fn nginx(root: &Path, state: &Path, address: SocketAddr) -> String {
    let (temporary, state, root) = (temporary(state), state.display(), root.display());
    format!(
        "daemon off;
worker_processes 1;
pid {state}/nginx.pid;
error_log {state}/error.log crit;
events {{
    worker_connections 4096;
    use epoll;
}}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    aio threads;
    keepalive_requests 1000000000;
    {temporary}
    server {{ listen {address} backlog=4096; root {root}; }}
}}
"
    )
}
