//! A defence against a user that stops a child between its change of user and its program.
//!
//! In that moment the child belongs to a user, and the user may send it SIGSTOP. Where the spawner
//! waits until the program runs (`clone_stack.rs`), the spawner would wait for ever. One hostile
//! user would then stop the programs of all users. So the spawner sets a timer before such a clone.
//! When the timer runs out, the keeper kills children of the spawner that are stopped before their
//! exec. Tested in `tests/processes.rs` (`spawner_survives_stop_signals`).

use rustix::{
    io::Result,
    process::{Pid, Signal, kill_process},
    time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec},
};
use std::{fs, os::fd::OwnedFd};

/// How long a start may take before the keeper looks, and the interval of further looks. A start
/// takes a tenth of a millisecond. The limit is ten times a slow start, so that the keeper sleeps
/// as a rule.
const LOOK_NS: i64 = 10_000_000;

const NEVER: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: LOOK_NS };

/// The spawner sets the timer, and the keeper reads it.
pub(crate) struct StallWatchdog(OwnedFd);

impl StallWatchdog {
    pub(crate) fn new() -> Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags).map(Self)
    }

    /// Readable while a start takes too long.
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.0
    }

    /// Runs `start` under the timer.
    pub(crate) fn watch<R>(&self, start: impl FnOnce() -> R) -> R {
        self.set(Itimerspec { it_interval: LOOK, it_value: LOOK });
        let result = start();
        self.set(Itimerspec { it_interval: NEVER, it_value: NEVER });
        result
    }

    fn set(&self, time: Itimerspec) {
        let set = rustix::time::timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &time);
        debug_assert!(set.is_ok(), "a timer can be set to any time");
    }

    /// In the keeper: kills stopped children that block `spawner`, if the timer has run out.
    pub(crate) fn look(&self, spawner: Pid, spawner_name: &str) {
        let mut times = [0; 8];
        if rustix::io::read(&self.0, &mut times).is_err() {
            return;
        }
        for child in crate::process::children_of(spawner) {
            if is_stopped_before_its_program(child, spawner_name) {
                let _ = kill_process(child, Signal::KILL);
            }
        }
    }
}

/// A process takes its program's name at the exec; until then the process has its parent's name.
fn is_stopped_before_its_program(pid: Pid, name: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    let named = stat.split_once(" (").and_then(|(_, rest)| rest.rsplit_once(") "));
    named.is_some_and(|(found, rest)| found == name && rest.starts_with('T'))
}
