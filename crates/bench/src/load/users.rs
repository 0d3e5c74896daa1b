//! Users with think times: the number of users that one core holds, their memory, and the lateness
//! of their timers.
//!
//! The users think 5 s on average, like the users of a support site, so each user causes little
//! load but needs memory. The server is Vermeil, because Vermeil accepts that many connections.

use std::fs;
use std::io::Read as _;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use vermeil_load::report::Record;

use super::{FILE, LoadBench, vermeil_load};
use crate::network::BenchNetwork;
use crate::peers::PeerSetting;
use crate::peers::process::PeerProcess;
use crate::peers::vermeil::{self, VermeilIo};
use crate::points::{PointKey, Points};
use crate::size::BenchSize;
use crate::{BenchError, BenchResult};

/// The numbers of users in a full run; the usual limit of descriptors is 20,000.
const USERS: [usize; 3] = [1_000, 5_000, 16_000];
/// And in a smoke run.
const USERS_SMOKE: [usize; 1] = [100];
/// The interval between readings of the injector's memory.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Runs every number of users once a round.
pub(super) fn run(bench: &LoadBench<'_>, points: &mut Points) -> BenchResult<()> {
    let users: &[usize] = if bench.options.size == BenchSize::Full { &USERS } else { &USERS_SMOKE };
    let (address, state) = (BenchNetwork::Loopback.free_address()?, bench.site.state_folder("vermeil")?);
    let root = bench.site.root();
    let setting = PeerSetting {
        network: &BenchNetwork::Loopback,
        address,
        cpu: bench.cpus.server,
        root: &root,
        state: &state,
    };
    let mut command = vermeil::command(setting, &bench.options.vermeil, VermeilIo::Epoll);
    command.args(["--connections-max", "100000"]);
    let server = PeerProcess::start("vermeil", command, &state)?;
    server.wait_until_listening(&BenchNetwork::Loopback, address)?;
    for round in 0..bench.options.rounds {
        for &users in users {
            bench.stop.check()?;
            let sample = hold(bench, users, &format!("http://{address}/{}", FILE.0))?;
            eprintln!(
                "round {}/{}  {users} users  {:.1} KB each  {:.1} % of a core  p99 {:.0} µs late",
                round + 1,
                bench.options.rounds,
                sample.bytes / users as f64 / 1024.0,
                sample.busy * 100.0,
                sample.late_us[1]
            );
            let per_gb = users as f64 / (sample.bytes / f64::from(1 << 30));
            let program = format!("{users} users");
            for (metric, unit, value) in [
                ("users_per_gb", "users", per_gb),
                ("users_per_core", "users", users as f64 / sample.busy.max(1e-6)),
                ("late_p50_us", "us", sample.late_us[0]),
                ("late_p99_us", "us", sample.late_us[1]),
                ("late_max_us", "us", sample.late_us[2]),
            ] {
                let key = PointKey { program: program.clone(), variant: "vermeil".into(), metric, unit };
                points.push(key, value);
            }
        }
    }
    server.stop()
}

struct UsersSample {
    /// The most memory that the injector had.
    bytes: f64,
    /// The injector's share of its core.
    busy: f64,
    /// The users' lateness: median, 99 %, maximum.
    late_us: [f64; 3],
}

fn hold(bench: &LoadBench<'_>, users: usize, url: &str) -> BenchResult<UsersSample> {
    let cpu = bench.cpus.client;
    let mut command = vermeil_load(&bench.options.vermeil, cpu);
    let (think, seconds) = match bench.options.size {
        BenchSize::Full => ("exp:5s:75s", 5),
        BenchSize::Smoke => ("exp:100ms", 1),
    };
    command.args(["-c", &users.to_string(), "--think", think, "--timeout", "60s"]);
    command.args(["--ramp-up", &format!("{seconds}s"), "-d", &format!("{seconds}s"), url]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(BenchError::thing("run", "vermeil load"))?;
    let mut said = child.stdout.take().expect("piped");
    let reader = thread::spawn(move || {
        let mut text = String::new();
        said.read_to_string(&mut text).map(|_| text)
    });
    let bytes = most_memory(&mut child)?;
    let text =
        reader.join().expect("reading does not panic").map_err(BenchError::thing("read", "vermeil load"))?;
    let wrong = || BenchError::form("vermeil load", format!("no numbers, or failed requests, in: {text}"));
    let record: Record = serde_json::from_str(&text).map_err(|_| wrong())?;
    let busy = record.injector.cores_busy.first().copied();
    let busy = busy.filter(|_| record.failed == 0 && record.users == users).ok_or_else(wrong)?;
    let late = &record.injector.late;
    let most = Duration::from_nanos(late.max_ns);
    // With too few samples for a percentile, the maximum is used instead.
    let late = [late.percentile(50.0).unwrap_or(most), late.percentile(99.0).unwrap_or(most), most];
    Ok(UsersSample { bytes, busy, late_us: late.map(|late| late.as_secs_f64() * 1e6) })
}

/// Waits for the end; returns the peak resident memory.
fn most_memory(child: &mut Child) -> BenchResult<f64> {
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0.0;
    loop {
        // An exiting process has no memory line any more, so such a reading is skipped.
        let text = fs::read_to_string(&status).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = peak.and_then(|peak| peak.split_whitespace().next()?.parse::<f64>().ok());
        most = f64::max(most, kilobytes.unwrap_or(0.0) * 1024.0);
        if child.try_wait().map_err(BenchError::thing("wait for", "vermeil load"))?.is_some() {
            return Ok(most);
        }
        thread::sleep(LOOK_EVERY);
    }
}
