//! Counts packets that were passed to a cpu and never arrived in its stack. A program at two
//! tracepoints counts, because the classifier does not learn of these drops.
//!
//! If rights or the tracepoints are missing, [`Drops::start`] returns the reason. Tested with real
//! traffic through the command.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::Serialize;

use crate::bpf::{self, MapKind, Mappable, ProgramKind};

/// The tracepoints of losses, in the order of [`PacketDrops`]'s fields.
const TRACEPOINTS: [&std::ffi::CStr; 2] = [c"xdp_cpumap_enqueue", c"xdp_cpumap_kthread"];

/// Packet counts since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PacketDrops {
    /// The cpu's queue was full.
    pub queue_full: u64,
    /// The cpu had no memory for the packets.
    pub no_memory: u64,
}

/// Counts until dropped.
#[derive(Debug)]
pub(crate) struct Drops {
    counts: OwnedFd,
    possible: usize,
    _running: Vec<OwnedFd>,
}

impl Drops {
    /// Starts counting packets that are passed through `queues` and dropped.
    ///
    /// # Errors
    /// The reason why counting is impossible here, in words.
    pub(crate) fn start(queues: BorrowedFd<'_>, possible: usize) -> Result<Self, String> {
        let start = || {
            let map_id = bpf::map_id(queues)?;
            let counts = bpf::create_map(MapKind::ArrayPerCpu, 8, TRACEPOINTS.len() as u32, Mappable::No)?;
            let attach = |(which, name)| {
                let kind = ProgramKind::RawTracepoint;
                let program = bpf::load(kind, &bpf::DROPS, &[counts.as_fd()], &[map_id, which])?;
                bpf::attach_raw_tracepoint(name, program.as_fd())
            };
            let running = (0..).zip(TRACEPOINTS).map(attach).collect::<std::io::Result<_>>()?;
            Ok(Self { counts, possible, _running: running })
        };
        start().map_err(|error: std::io::Error| {
            format!("the kernel does not take the program that counts (CAP_BPF and CAP_PERFMON may): {error}")
        })
    }

    /// The counts.
    pub(crate) fn counts(&self) -> PacketDrops {
        let count = |which| bpf::sum(self.counts.as_fd(), which, self.possible);
        PacketDrops { queue_full: count(0), no_memory: count(1) }
    }
}
