//! The lifetime of a program whose client has gone. The program consists of two sleeping processes;
//! the client closes its connection after the program has sent their process ids.
//!
//! The measured time runs from just before the client closes until both processes have ended,
//! observed by their pidfds. The floor is the same program, started and killed with its group by
//! the bench.

use std::io::Write as _;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::configured::is_root;
use super::floor;
use super::programs::{CompiledPrograms, SAYS};
use crate::machine::BenchCpus;
use crate::network::BenchNetwork;
use crate::options::BenchOptions;
use crate::peers::process::PeerProcess;
use crate::peers::vermeil::VermeilIo;
use crate::points::{PointKey, Points};
use crate::size::BenchSize;
use crate::stop::StopFlag;
use crate::{BenchError, BenchResult};

/// The program's name in rows.
pub(super) const PROGRAM: &str = "abort";

/// A program that is not dead by then stays alive.
const TIME_MAX: Duration = Duration::from_secs(5);

/// The names of drivers in rows.
const DRIVERS: [(&str, VermeilIo); 2] =
    [("vermeil-uring", VermeilIo::Uring), ("vermeil-epoll", VermeilIo::Epoll)];

/// Measures both drivers and the floor, round after round.
pub(super) fn run(
    options: &BenchOptions,
    programs: &CompiledPrograms,
    stop: &StopFlag,
    points: &mut Points,
) -> BenchResult<()> {
    let count = match options.size {
        BenchSize::Full => 100,
        BenchSize::Smoke => 3,
    };
    let cpus = BenchCpus::allowed()?;
    for _ in 0..options.rounds {
        for (name, io) in DRIVERS {
            stop.check()?;
            keep(name, server(options, programs, cpus, (name, io), count)?, points);
        }
        keep(floor::NAME, pinned(cpus.client, || by_hand(programs, cpus.server, count))?, points);
    }
    Ok(())
}

fn keep(variant: &str, mut times: Vec<Duration>, points: &mut Points) {
    times.sort_unstable();
    let us = |time: Option<&Duration>| time.expect("there was one at least").as_secs_f64() * 1e6;
    let (median, longest) = (us(times.get(times.len() / 2)), us(times.last()));
    eprintln!("           {PROGRAM:<13} {variant:<15} {median:>8.0} µs until dead, {longest:.0} µs at most");
    for (metric, value) in [("gone_us", median), ("gone_longest_us", longest)] {
        points.push(PointKey { program: PROGRAM.into(), variant: variant.into(), metric, unit: "us" }, value);
    }
}

/// Runs `measure` on a separate thread, on `cpu`.
fn pinned<T: Send>(cpu: usize, measure: impl FnOnce() -> BenchResult<T> + Send) -> BenchResult<T> {
    let on_cpu = || {
        let mut cpus = CpuSet::new();
        cpus.set(cpu);
        sched_setaffinity(None, &cpus).map_err(|errno| BenchError::thing("pin", "a client")(errno.into()))?;
        measure()
    };
    thread::scope(|scope| scope.spawn(on_cpu).join()).expect("it does not panic")
}

/// The times of `count` programs of a server.
fn server(
    options: &BenchOptions,
    programs: &CompiledPrograms,
    cpus: BenchCpus,
    (name, io): (&str, VermeilIo),
    count: usize,
) -> BenchResult<Vec<Duration>> {
    let (network, address) = (BenchNetwork::Loopback, BenchNetwork::Loopback.free_address()?);
    let mut command = network.server_command(&options.vermeil, cpus.server);
    command.arg("serve").arg(programs.root()).args(["--listen", &address.to_string(), "--log", "off"]);
    command.args(["--io", io.name(), "--cgi", "/cgi-bin/", "--cores", &format!("{0}-{0}", cpus.server)]);
    if is_root() {
        command.args(["--cgi-user", "nobody"]);
    }
    let process = PeerProcess::start(name, command, &programs.state_folder(name)?)?;
    process.wait_until_listening(&network, address)?;
    let abort = || {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(TIME_MAX))?;
        write!(stream, "GET /cgi-bin/sleeps HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
        let tree = tree(&mut stream)?;
        let begin = Instant::now();
        drop(stream);
        until_dead(&tree, begin)
    };
    let times = pinned(cpus.client, || {
        let times: std::io::Result<_> = (0..count).map(|_| abort()).collect();
        times.map_err(|error| process.failure(&format!("a client that goes: {error}")))
    })?;
    process.stop()?;
    Ok(times)
}

/// The times of `count` programs that are started on `cpu` and killed here.
fn by_hand(programs: &CompiledPrograms, cpu: usize, count: usize) -> BenchResult<Vec<Duration>> {
    let path = programs.root().join("cgi-bin/sleeps");
    let kill = || {
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu.to_string()]).arg(&path).process_group(0);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let tree = tree(child.stdout.as_mut().expect("it was asked for"))?;
        let begin = Instant::now();
        kill_process_group(Pid::from_child(&child), Signal::KILL)?;
        let time = until_dead(&tree, begin);
        child.wait()?;
        time
    };
    let times: std::io::Result<_> = (0..count).map(|_| kill()).collect();
    times.map_err(BenchError::path("start and kill", &path))
}

/// The processes that the program reports.
fn tree(said: &mut impl std::io::Read) -> std::io::Result<[OwnedFd; 2]> {
    let (mut text, mut buffer) = (Vec::new(), [0; 1024]);
    loop {
        let bytes = said.read(&mut buffer)?;
        if bytes == 0 {
            let said = String::from_utf8_lossy(&text).into_owned();
            return Err(std::io::Error::other(format!("it does not say who it is: {said:?}")));
        }
        text.extend_from_slice(&buffer[..bytes]);
        if let Some([parent, child]) = pids(&String::from_utf8_lossy(&text)) {
            let open = |pid| Ok::<_, std::io::Error>(pidfd_open(pid, PidfdFlags::empty())?);
            return Ok([open(parent)?, open(child)?]);
        }
    }
}

/// The two process ids in the report line of `text`, if the line is complete.
fn pids(text: &str) -> Option<[Pid; 2]> {
    let (line, _) = text.split_once(SAYS)?.1.split_once('\n')?;
    let mut pids = line.split_whitespace().map(|number| Pid::from_raw(number.parse().ok()?));
    Some([pids.next()??, pids.next()??])
}

/// The time from `begin` until both processes have ended.
fn until_dead(tree: &[OwnedFd; 2], begin: Instant) -> std::io::Result<Duration> {
    for process in tree {
        let left = TIME_MAX.saturating_sub(begin.elapsed());
        let left = Timespec::try_from(left).map_err(std::io::Error::other)?;
        if poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left))? == 0 {
            return Err(std::io::Error::other(format!("its program still lives after {TIME_MAX:?}")));
        }
    }
    Ok(begin.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_identifies_itself_in_a_line() {
        let said = format!("HTTP/1.1 200 OK\r\n\r\n{SAYS}12 13");
        assert!(pids(&said).is_none());
        let both = [12, 13].map(|number| Pid::from_raw(number).expect("not zero"));
        assert_eq!(pids(&format!("{said}\n\r\n")), Some(both));
    }
}
