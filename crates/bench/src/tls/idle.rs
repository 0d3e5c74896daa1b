//! The memory of idle connections.
//!
//! Each user of a load thinks, opens a connection with a full handshake, asks once, and thinks
//! again. While all users think, the result is the growth of the server's memory, per connection.
//! The kernel's memory of sockets is not in it, and is the same for all servers.

use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::cost::FILES;
use super::injector::{Handshakes, TlsLoad, url};
use super::keys::KeyKind;
use super::servers::{StartedServer, TlsServer};
use super::{TlsBench, TlsMetric, push, wrong_load};
use crate::load::vermeil_load;
use crate::measure::{CpuTime, memory_of_group};
use crate::network::Spread;
use crate::points::Points;
use crate::{BenchError, BenchResult};

/// Idle connections of a full run.
pub(super) const IDLE: usize = 10_000;
/// And of a smoke run.
pub(super) const IDLE_SMOKE: usize = 50;

/// Time until the server has made all handshakes. The slowest makes 2,000 a second.
const OPEN_MAX: Duration = Duration::from_secs(60);
/// The think time. All users start within half of it, so all users think at the same time.
const THINK: Duration = Duration::from_secs(20);
/// The time over which the users start. Vermeil refuses a part of a burst of handshakes.
const START: Duration = Duration::from_secs(10);
/// And of a smoke run.
const THINK_SMOKE: Duration = Duration::from_secs(2);
/// Between two looks at a server.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The share of a cpu of a server that has nothing more to do.
const QUIET: f64 = 0.02;
/// Bytes per connection.
const IDLE_BYTES: TlsMetric = ("idle_bytes", "bytes");

/// Measures all servers.
pub(super) fn run(bench: &TlsBench<'_>, points: &mut Points) -> BenchResult<()> {
    bench.rounds(&bench.servers, |server| sample(bench, server, points))
}

/// The load's process, killed when dropped.
struct WaitingLoad(Child);

impl Drop for WaitingLoad {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn sample(bench: &TlsBench<'_>, server: TlsServer, points: &mut Points) -> BenchResult<()> {
    let count = if bench.is_full() { IDLE } else { IDLE_SMOKE };
    let started = server.start(bench, KeyKind::Ecdsa, Spread::OneCpu)?;
    // The first connections fill caches and buffers that all connections share.
    let warm_up = TlsLoad {
        file: FILES[0],
        handshakes: Handshakes::Full,
        connections: bench.connections(),
        duration: bench.options.duration,
    };
    warm_up.run(bench, server, started.address).map_err(|problem| wrong_load(server, problem.to_string()))?;
    until_quiet(bench, &started, 0)?;
    let before = memory_of_group(started.process.group())?;
    let mut command = vermeil_load(&bench.options.vermeil, bench.cpus.client);
    let think = if bench.is_full() { THINK } else { THINK_SMOKE };
    command.args(["-c", &count.to_string(), "--think", &format!("{}s", think.as_secs())]);
    command.args(["-d", "10m", "--timeout", "60s", "--insecure"]);
    if bench.is_full() {
        command.args(["--ramp-up", &format!("{}s", START.as_secs())]);
    }
    command.arg(url(started.address, FILES[0].0)).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null());
    let waiting = WaitingLoad(command.spawn().map_err(BenchError::thing("run", "vermeil load"))?);
    until_quiet(bench, &started, count)?;
    let after = memory_of_group(started.process.group())?;
    let each = after.saturating_sub(before) as f64 / count as f64;
    push(points, &idle_name(count), server, IDLE_BYTES, each);
    eprintln!("{:<15} {:<8} {:>8.1} KB each", idle_name(count), server.name(), each / 1024.0);
    drop(waiting);
    started.process.stop()
}

/// The name in rows.
pub(super) fn idle_name(count: usize) -> String {
    format!("{count} idle")
}

/// Waits until the server has `count` connections and no more work.
fn until_quiet(bench: &TlsBench<'_>, started: &StartedServer, count: usize) -> BenchResult<()> {
    let deadline = Instant::now() + OPEN_MAX;
    let mut before = CpuTime::of_group(started.process.group())?;
    loop {
        thread::sleep(LOOK_EVERY);
        bench.stop.check()?;
        let now = CpuTime::of_group(started.process.group())?;
        let share = (now - before).run.as_secs_f64() / LOOK_EVERY.as_secs_f64();
        let open = connections_at(started.address)?;
        if share < QUIET && open >= count {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let problem = format!("{open} of {count} connections after {OPEN_MAX:?}, {share:.2} of a cpu");
            return Err(started.process.failure(&problem));
        }
        before = now;
    }
}

/// The established connections of a server on the loopback device (proc_net_tcp of the kernel's
/// documentation).
fn connections_at(address: SocketAddr) -> BenchResult<usize> {
    let table = fs::read_to_string("/proc/net/tcp").map_err(BenchError::thing("read", "/proc/net/tcp"))?;
    let port = format!(":{:04X}", address.port());
    Ok(table.lines().filter(|line| is_established_at(line, &port)).count())
}

fn is_established_at(line: &str, port: &str) -> bool {
    let mut fields = line.split_whitespace().skip(1);
    fields.next().is_some_and(|local| local.ends_with(port)) && fields.nth(1) == Some("01")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn established_connections_of_a_server_count() {
        let of = |line| is_established_at(line, ":1F90");
        assert!(of("  0: 0100007F:1F90 0100007F:A0B2 01 00000000:00000000 00:00000000"));
        assert!(!of("  1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000"));
        assert!(!of("  2: 0100007F:A0B2 0100007F:1F90 01 00000000:00000000 00:00000000"));
        assert!(!of("  sl  local_address rem_address   st tx_queue rx_queue"));
    }
}
