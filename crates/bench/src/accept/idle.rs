//! The cost of a request beside many idle connections.
//!
//! A server is measured with few and with many idle connections by turns, in one start, because two
//! starts of a server differ more than idle connections cost. The turns are taken often enough that
//! a drift of the machine's speed meets both alike.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use super::servers::AcceptServer;
use super::{AcceptBench, FILE, Started, push};
use crate::measure::CpuTime;
use crate::points::Points;
use crate::size::BenchSize;
use crate::{BenchError, BenchResult};

/// Few idle connections.
pub(super) const FEW: usize = 100;
/// Many: with the connections of the load, nearly as many as Vermeil keeps with 20,000 descriptors.
pub(super) const MANY: usize = 14_000;
/// And of a smoke run.
const MANY_SMOKE: usize = 200;
/// Turns of few and many connections in a round.
const TURNS: usize = 3;
/// The share of a cpu of a server that has nothing more to do.
const QUIET: f64 = 0.02;
/// Between two looks at a server.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A server that is busy for this time without a request is stuck.
const QUIET_MAX: Duration = Duration::from_secs(20);
/// A server that does not answer within this time is stuck.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Many idle connections.
pub(super) fn many(size: BenchSize) -> usize {
    if size == BenchSize::Full { MANY } else { MANY_SMOKE }
}

/// Measures `server`.
pub(super) fn sample(bench: &AcceptBench<'_>, server: AcceptServer, points: &mut Points) -> BenchResult<()> {
    allow_descriptors();
    bench.with(server, |started| {
        let counts = [FEW, many(bench.options.size)];
        let (mut spent, mut requests) = ([Duration::ZERO; 2], [0; 2]);
        let mut connections = Vec::new();
        let turns = if bench.options.size == BenchSize::Full { TURNS } else { 1 };
        started.load("", bench.options.duration / 4)?;
        for _ in 0..turns {
            for (at, count) in counts.into_iter().enumerate() {
                connections.truncate(count);
                while connections.len() < count {
                    connections.push(idle_connection(started)?);
                }
                until_quiet(started)?;
                let before = CpuTime::of_group(started.process.group())?;
                requests[at] += started.load("", bench.options.duration / turns as u32)?.requests;
                spent[at] += (CpuTime::of_group(started.process.group())? - before).run;
                check_open(server, &mut connections)?;
            }
        }
        let [few, many] = [0, 1].map(|at| spent[at].as_secs_f64() * 1e6 / requests[at] as f64);
        eprintln!("{:<30} {:<16} {few:>6.2} us  {many:>6.2} us", "idle", server.name());
        push(points, "idle", server, ("few_us", "us"), few);
        push(points, "idle", server, ("many_us", "us"), many);
        push(points, "idle", server, ("growth", "ratio"), many / few);
        Ok(())
    })
}

/// Raises this process's bound of descriptors as far as the system allows.
fn allow_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // With a lower bound, opening the connections fails with a message.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// A connection whose request has been answered.
fn idle_connection(started: &Started<'_>) -> BenchResult<TcpStream> {
    let ask = || -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect_timeout(&started.setting.address, ANSWER_MAX)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.write_all(format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", FILE.0).as_bytes())?;
        let mut answer = Vec::new();
        let mut part = [0; 8192];
        while !is_whole(&answer) {
            let read = stream.read(&mut part)?;
            if read == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            answer.extend_from_slice(&part[..read]);
        }
        Ok(stream)
    };
    ask().map_err(|error| started.process.failure(&format!("opening an idle connection: {error}")))
}

/// Whether `answer` has a head and all bytes of the file.
fn is_whole(answer: &[u8]) -> bool {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    end.is_some_and(|end| answer.len() == end + 4 + FILE.1)
}

/// Waits until the server has no more work.
fn until_quiet(started: &Started<'_>) -> BenchResult<()> {
    let deadline = Instant::now() + QUIET_MAX;
    let mut before = CpuTime::of_group(started.process.group())?;
    while Instant::now() < deadline {
        thread::sleep(LOOK_EVERY);
        started.bench.stop.check()?;
        let now = CpuTime::of_group(started.process.group())?;
        if (now - before).run.as_secs_f64() < QUIET * LOOK_EVERY.as_secs_f64() {
            return Ok(());
        }
        before = now;
    }
    Err(started.process.failure("the server is busy without a request"))
}

/// Checks that the server has closed no idle connection.
fn check_open(server: AcceptServer, connections: &mut [TcpStream]) -> BenchResult<()> {
    for stream in connections {
        stream.set_nonblocking(true).map_err(BenchError::thing("prepare", "an idle connection"))?;
        match stream.read(&mut [0]) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            _ => {
                return Err(BenchError::form(
                    "an idle connection",
                    format!("{} closed it during the run", server.name()),
                ));
            }
        }
    }
    Ok(())
}
