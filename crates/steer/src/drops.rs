//! Packets that were handed to a cpu and never arrived in its stack: a program at two tracepoints counts them, since the
//! program that hands them over does not hear of it.
//!
//! Where rights or the tracepoints are missing, [`Drops::start`] says so. Tested with real traffic through the command.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::Serialize;

use crate::bpf::{self, MapKind, Mappable, ProgramKind};

/// Where packets are lost, in the order of [`Dropped`]'s fields.
const TRACEPOINTS: [&std::ffi::CStr; 2] = [c"xdp_cpumap_enqueue", c"xdp_cpumap_kthread"];

/// Packets since the beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// As many as may waited for their cpu already.
    pub queue_full: u64,
    /// Their cpu had no memory for them.
    pub no_memory: u64,
}

/// Counts while it lives.
#[derive(Debug)]
pub(crate) struct Drops {
    counts: OwnedFd,
    possible: usize,
    _running: Vec<OwnedFd>,
}

impl Drops {
    /// Starts counting what is handed over through `queues` and dropped.
    ///
    /// # Errors
    /// Why that cannot be measured here, in words.
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

    /// What was dropped.
    pub(crate) fn counts(&self) -> Dropped {
        let count = |which| bpf::sum(self.counts.as_fd(), which, self.possible);
        Dropped { queue_full: count(0), no_memory: count(1) }
    }
}
