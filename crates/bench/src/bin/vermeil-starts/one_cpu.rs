//! Puts all participants of a start on one cpu.
//!
//! With more cpus, each participant usually wakes up on another cpu, and on a virtual machine that
//! cpu is halted. The measurement then shows mostly the work of the host. On one cpu no wake-up
//! goes elsewhere, so the measurement shows only the work of the start.

use std::io;

use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity},
};

/// Keeps this thread and some processes on one cpu until this value is dropped.
pub(crate) struct OneCpu {
    /// The cpus allowed before.
    before: Vec<(Option<Pid>, CpuSet)>,
}

impl OneCpu {
    /// Keeps this thread on its current cpu, and the only threads of `others` with this thread.
    ///
    /// # Errors
    /// One of the processes has ended, or belongs to another user.
    pub(crate) fn hold(others: [u32; 2]) -> io::Result<Self> {
        let mut one = CpuSet::new();
        one.set(sched_getcpu());
        let mut held = Self { before: Vec::new() };
        for pid in [None].into_iter().chain(others.map(|pid| Pid::from_raw(pid.cast_signed()))) {
            let before = sched_getaffinity(pid)?;
            sched_setaffinity(pid, &one)?;
            held.before.push((pid, before));
        }
        Ok(held)
    }
}

impl Drop for OneCpu {
    fn drop(&mut self) {
        for (pid, before) in &self.before {
            // An ended process needs no restoring.
            let _ = sched_setaffinity(*pid, before);
        }
    }
}
