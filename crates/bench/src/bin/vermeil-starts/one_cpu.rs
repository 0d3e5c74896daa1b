//! Pins all participants of a start to one cpu: the caller, the spawner and the program.
//!
//! With more cpus, each participant usually wakes up on another cpu. On a virtual machine that cpu
//! is halted, so the measurement shows mostly the work of the host (`awake.rs`). On one cpu a
//! wake-up reaches no other cpu, so the measurement shows only the work of the start.

use std::io;

use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity},
};

/// Pins this thread and some processes to one cpu until this value is dropped.
pub(crate) struct OneCpu {
    pinned: Vec<PinnedThread>,
}

struct PinnedThread {
    /// `None` for the thread of the caller.
    pid: Option<Pid>,
    /// The cpus allowed before.
    before: CpuSet,
}

impl OneCpu {
    /// Pins this thread to its current cpu, and the processes `others` to the same cpu. The
    /// processes must have a single thread.
    ///
    /// # Errors
    /// One of the processes has ended, or belongs to another user.
    pub(crate) fn hold(others: [u32; 2]) -> io::Result<Self> {
        let mut cpu = CpuSet::new();
        cpu.set(sched_getcpu());
        // After an error the drop restores the threads that are pinned already.
        let mut held = Self { pinned: Vec::new() };
        held.pin(None, &cpu)?;
        for pid in others {
            held.pin(Some(Pid::from_raw(pid.cast_signed()).expect("a process id")), &cpu)?;
        }
        Ok(held)
    }

    fn pin(&mut self, pid: Option<Pid>, cpu: &CpuSet) -> io::Result<()> {
        let before = sched_getaffinity(pid)?;
        sched_setaffinity(pid, cpu)?;
        self.pinned.push(PinnedThread { pid, before });
        Ok(())
    }
}

impl Drop for OneCpu {
    fn drop(&mut self) {
        for PinnedThread { pid, before } in &self.pinned {
            // Fails for a process that has ended.
            let _ = sched_setaffinity(*pid, before);
        }
    }
}
