//! All that takes part in a start on one cpu.
//!
//! Where there are more, each that takes its turn is woken on another, as a rule, and on a virtual machine that is halted: so
//! what is measured is mostly what the host does. On one cpu nobody is woken elsewhere, and nothing but the work is left.

use std::io;

use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity},
};

/// This thread and some processes are on one cpu until this is dropped.
pub(crate) struct OneCpu {
    /// Where they were allowed to be.
    before: Vec<(Option<Pid>, CpuSet)>,
}

impl OneCpu {
    /// Keeps this thread where it is, and the only threads of `others` with it.
    ///
    /// # Errors
    /// One of them has ended, or is not ours.
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
            // Whoever has ended is nowhere.
            let _ = sched_setaffinity(*pid, before);
        }
    }
}
