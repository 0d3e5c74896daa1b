//! A defence against a user that holds a child up between its change of user and its program.
//!
//! In that moment the child belongs to a user, and the user may send it SIGSTOP. The user may also
//! have a lease of the program's file (`fcntl(2)`), and then the exec waits for the end of the
//! lease. Where the spawner waits until the program runs (`clone_stack.rs`), the spawner would wait
//! as long as the child. One hostile user would then stop the programs of all users. So the spawner
//! sets a timer before such a clone. When the timer runs out, the keeper looks at the children of
//! the spawner that are still before their exec. The keeper kills stopped children at once, and a
//! child that takes too long after [`LOOKS_MAX`] looks. Tested in `tests/processes/ends.rs`
//! (`spawner_survives_stop_signals`, `spawner_survives_leased_program`).

use rustix::{
    io::Result,
    process::{Pid, Signal, kill_process},
    time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec},
};
use std::{cell::Cell, fs, os::fd::OwnedFd};

/// How long a start may take before the keeper looks, and the interval of further looks. A start
/// takes a tenth of a millisecond. The limit is ten times a slow start, so that the keeper sleeps
/// as a rule.
const LOOK_NS: i64 = 10_000_000;

/// Looks at one child before the keeper kills the child: two seconds. A cold disk takes less, and
/// all other programs wait meanwhile.
const LOOKS_MAX: u32 = 200;

const NEVER: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: LOOK_NS };

/// The spawner sets the timer, and the keeper reads the timer.
pub(crate) struct StallWatchdog {
    timer: OwnedFd,
    /// In the keeper: the child that the spawner waited for at the last look, and the looks in a
    /// row that found this child before its exec.
    awaited: Cell<Option<(Pid, u32)>>,
}

impl StallWatchdog {
    pub(crate) fn new() -> Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self { timer, awaited: Cell::new(None) })
    }

    /// Readable while a start takes too long.
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.timer
    }

    /// Runs `start` under the timer.
    pub(crate) fn watch<R>(&self, start: impl FnOnce() -> R) -> R {
        self.set(Itimerspec { it_interval: LOOK, it_value: LOOK });
        let result = start();
        self.set(Itimerspec { it_interval: NEVER, it_value: NEVER });
        result
    }

    fn set(&self, time: Itimerspec) {
        let set = rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time);
        debug_assert!(set.is_ok(), "a timer can be set to any time");
    }

    /// In the keeper: kills children that block `spawner`, if the timer has run out.
    pub(crate) fn look(&self, spawner: Pid, spawner_name: &str) {
        let mut times = [0; 8];
        if rustix::io::read(&self.timer, &mut times).is_err() {
            return;
        }
        let mut last = None;
        for child in crate::process::children_of(spawner) {
            let state = state_before_program(child, spawner_name);
            if state == Some('T') {
                kill(child);
            }
            last = state.map(|_| child);
        }
        // The kernel lists children by age, and the spawner waits for the youngest.
        let Some(child) = last else { return self.awaited.set(None) };
        let looks = match self.awaited.get() {
            Some((known, looks)) if known == child => looks + 1,
            _ => 1,
        };
        self.awaited.set(Some((child, looks)));
        if looks > LOOKS_MAX {
            kill(child);
        }
    }
}

fn kill(child: Pid) {
    // The child may have ended meanwhile.
    let _ = kill_process(child, Signal::KILL);
}

/// The state of a child that has not executed its program, for example `S` or `T`. A process takes
/// its program's name at the exec; until then the process has its parent's name.
fn state_before_program(pid: Pid, name: &str) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    let (_, rest) = stat.split_once(" (")?;
    let (found, rest) = rest.rsplit_once(") ")?;
    rest.chars().next().filter(|_| found == name)
}
