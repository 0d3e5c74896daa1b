//! Counts wake-ups of threads that read from TCP sockets: by the cpu that the thread sleeps on, or
//! by another cpu, which must interrupt the first. A program at a tracepoint counts; the meter
//! supplies the set of threads.
//!
//! If rights, the tracepoint or the kernel's BTF are missing, [`Wakes::start`] returns the reason.
//! Tested here, if allowed, and with real traffic through the command.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use serde::Serialize;
use vermeil_topology::CpuId;

use crate::Meter;
use crate::bpf::{self, MapKind, Mappable, ProgramKind};
use crate::btf::Btf;
use crate::meter::{here_and_elsewhere, kernel_types};

/// The tracepoint of the waking cpu.
const TRACEPOINT: &std::ffi::CStr = c"sched_waking";

/// Counts until dropped.
#[derive(Debug)]
pub(crate) struct Wakes {
    counts: OwnedFd,
    possible: usize,
    _running: OwnedFd,
}

/// The wake-ups by a cpu.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CpuWakes {
    /// The waking cpu.
    pub cpu: CpuId,
    /// Threads that slept on the waking cpu.
    pub here: u64,
    /// Threads that slept on another cpu.
    pub elsewhere: u64,
}

impl Wakes {
    /// Starts counting wake-ups of the threads that `meter` records.
    ///
    /// # Errors
    /// The reason why counting is impossible here, in words.
    pub(crate) fn start(meter: &Meter) -> Result<Self, String> {
        let kernel = kernel_types()?;
        let offsets = Btf::parse(&kernel).and_then(|btf| {
            let info = btf.offset("task_struct", "thread_info")?;
            Some([info + btf.offset("thread_info", "cpu")?, btf.offset("task_struct", "pid")?])
        });
        let numbers = offsets.ok_or("the kernel's threads do not name their cpu")?;
        let start = || -> io::Result<Self> {
            let counts = bpf::create_map(MapKind::ArrayPerCpu, 8, 2, Mappable::No)?;
            let maps = [counts.as_fd(), meter.readers()];
            let program = bpf::load(ProgramKind::RawTracepoint, &bpf::WAKES, &maps, &numbers)?;
            let running = bpf::attach_raw_tracepoint(TRACEPOINT, program.as_fd())?;
            Ok(Self { counts, possible: meter.possible(), _running: running })
        };
        start().map_err(|error| {
            format!("the kernel does not take the program that counts (CAP_BPF and CAP_PERFMON may): {error}")
        })
    }

    /// The counts so far of waking cpus.
    pub(crate) fn woken(&self) -> Vec<CpuWakes> {
        let counts = here_and_elsewhere(self.counts.as_fd(), self.possible);
        counts.into_iter().map(|(cpu, here, elsewhere)| CpuWakes { cpu, here, elsewhere }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    #[test]
    fn wake_ups_of_a_thread_that_reads_are_counted_where_that_is_allowed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let started = Meter::start(Some(addr.port())).and_then(|meter| Ok((Wakes::start(&meter)?, meter)));
        let (wakes, _meter) = match started {
            Ok(started) => started,
            Err(why) => return assert!(why.contains("kernel"), "{why}"),
        };
        let mut client = TcpStream::connect(addr).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let echo = thread::spawn(move || {
            let mut byte = [0];
            while server.read(&mut byte).is_ok_and(|count| count > 0) {
                server.write_all(&byte).unwrap();
            }
        });
        for _ in 0..200 {
            client.write_all(b"x").unwrap();
            client.read_exact(&mut [0]).unwrap();
        }
        drop(client);
        echo.join().unwrap();
        let woken: u64 = wakes.woken().iter().map(|woken| woken.here + woken.elsewhere).sum();
        // Not all reads: the meter records a thread at its first read, and a thread does not sleep
        // if the next byte is there already.
        assert!((1..=400).contains(&woken), "{woken} wake-ups for 200 reads");
    }
}
