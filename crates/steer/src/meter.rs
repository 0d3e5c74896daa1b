//! Measures packet locality: a program at a tracepoint counts, for every read from a TCP socket on
//! this machine or on one port, whether the reading cpu had handled the socket's last packet.
//!
//! Needs no help from the watched server. Contains the lookup of the kernel's offsets and the sum
//! of the counts. If rights, the tracepoint or the kernel's BTF are missing, [`Meter::start`]
//! returns the reason. Tested here, if allowed.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::Serialize;
use vermeil_topology::{CpuId, CpuSet};

use crate::bpf::{self, MapKind, Mappable, ProgramKind};
use crate::btf::Btf;

/// The tracepoint of every read that got bytes.
const TRACEPOINT: &std::ffi::CStr = c"tcp_rcv_space_adjust";

/// Maximum number of threads recorded as readers, which bounds the map in the kernel. Further
/// threads are not included in the count of wake-ups. A server has one such thread per core.
const READERS_MAX: u32 = 4096;

/// Counts until dropped.
#[derive(Debug)]
pub struct Meter {
    counts: OwnedFd,
    /// The threads that have read, by number.
    readers: OwnedFd,
    /// Possible cpus, because the kernel keeps a count for each.
    possible: usize,
    _running: OwnedFd,
}

/// The reads of a cpu.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Reads {
    /// The reading cpu.
    pub cpu: CpuId,
    /// Reads of bytes whose packets this cpu had handled.
    pub here: u64,
    /// Reads of bytes whose packets another cpu had handled.
    pub elsewhere: u64,
}

impl Meter {
    /// Starts counting reads from sockets of `port`, or of all ports.
    ///
    /// # Errors
    /// The reason why counting is impossible here, in words.
    pub fn start(port: Option<u16>) -> Result<Meter, String> {
        let kernel = kernel_types()?;
        let offsets = Btf::parse(&kernel).and_then(|btf| {
            Some([btf.offset("sock_common", "skc_incoming_cpu")?, btf.offset("sock_common", "skc_num")?])
        });
        let [incoming, local_port] = offsets.ok_or("the kernel's sockets do not name their cpu")?;
        let possible = possible_cpus().ok_or("/sys/devices/system/cpu/possible cannot be read")?;
        let start = || {
            let counts = bpf::create_map(MapKind::ArrayPerCpu, 8, 2, Mappable::No)?;
            let readers = bpf::create_map(MapKind::Hash, 4, READERS_MAX, Mappable::No)?;
            let maps = [counts.as_fd(), readers.as_fd()];
            let numbers = [incoming, local_port, u32::from(port.unwrap_or(0))];
            let program = bpf::load(ProgramKind::RawTracepoint, &bpf::METER, &maps, &numbers)?;
            let running = bpf::attach_raw_tracepoint(TRACEPOINT, program.as_fd())?;
            Ok(Meter { counts, readers, possible, _running: running })
        };
        start().map_err(|error: std::io::Error| {
            format!("the kernel does not take the program that counts (CAP_BPF and CAP_PERFMON may): {error}")
        })
    }

    /// The counts so far of cpus that have read.
    pub fn reads(&self) -> Vec<Reads> {
        let counts = here_and_elsewhere(self.counts.as_fd(), self.possible);
        counts.into_iter().map(|(cpu, here, elsewhere)| Reads { cpu, here, elsewhere }).collect()
    }

    /// The map of threads that have read.
    pub(crate) fn readers(&self) -> BorrowedFd<'_> {
        self.readers.as_fd()
    }

    /// Number of possible cpus.
    pub(crate) fn possible(&self) -> usize {
        self.possible
    }
}

/// The kernel's description of its types.
///
/// # Errors
/// The description is missing; the reason in words.
pub(crate) fn kernel_types() -> Result<Vec<u8>, String> {
    fs::read("/sys/kernel/btf/vmlinux")
        .map_err(|error| format!("the kernel does not describe its types (/sys/kernel/btf/vmlinux: {error})"))
}

/// Two counts of each cpu with a count above zero.
pub(crate) fn here_and_elsewhere(counts: BorrowedFd<'_>, possible: usize) -> Vec<(CpuId, u64, u64)> {
    let [here, elsewhere] = [0, 1].map(|which| {
        let mut bytes = vec![0; possible * 8];
        // The map exists as long as its descriptor.
        bpf::lookup(counts, which, &mut bytes).expect("a map of two counts");
        let words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight")));
        words.collect::<Vec<u64>>()
    });
    let all = (0..).zip(here).zip(elsewhere).map(|((cpu, here), elsewhere)| (CpuId(cpu), here, elsewhere));
    all.filter(|(_, here, elsewhere)| here + elsewhere > 0).collect()
}

/// Number of possible cpus, counted from 0, which is the number of values in a per-cpu map.
pub(crate) fn possible_cpus() -> Option<usize> {
    let text = fs::read_to_string("/sys/devices/system/cpu/possible").ok()?;
    let possible: CpuSet = text.trim().parse().ok()?;
    Some(possible.iter().last().map_or(1, |cpu| cpu.0 as usize + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn reads_of_one_port_are_counted_where_that_is_allowed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let meter = match Meter::start(Some(addr.port())) {
            Ok(meter) => meter,
            Err(why) => return assert!(why.contains("kernel"), "{why}"),
        };
        let mut client = TcpStream::connect(addr).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        for _ in 0..10 {
            client.write_all(b"x").unwrap();
            server.read_exact(&mut [0]).unwrap();
        }
        let reads: u64 = meter.reads().iter().map(|reads| reads.here + reads.elsewhere).sum();
        assert_eq!(reads, 10);
    }
}
