//! The process that is recorded: one that runs, or a command that the recorder starts and ends.
//!
//! Leaves out its descendants (`processes`) and its samples (`sampler`). Tested in
//! `tests/record.rs` and `tests/bad_cases.rs`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use rustix::time::Timespec;

use crate::ProfileError;
use crate::sampler::system;

/// How long a command may take to end after `duration` before it is killed.
const ENDS: Duration = Duration::from_secs(10);

/// The process that is recorded.
pub(crate) struct RecordedProcess {
    pub(crate) pid: i32,
    handle: OwnedFd,
    child: Option<Child>,
    asked_to_end: Option<Instant>,
}

impl RecordedProcess {
    pub(crate) fn attach(pid: i32) -> Result<Self, ProfileError> {
        let id = Pid::from_raw(pid).ok_or(ProfileError::NoProcess(pid))?;
        let handle = pidfd_open(id, PidfdFlags::empty()).map_err(|_| ProfileError::NoProcess(pid))?;
        Ok(Self { pid, handle, child: None, asked_to_end: None })
    }

    pub(crate) fn start(words: &[OsString]) -> Result<Self, ProfileError> {
        let child = Command::new(&words[0]).args(&words[1..]).spawn();
        let child =
            child.map_err(|source| ProfileError::Start { command: PathBuf::from(&words[0]), source })?;
        let mut run = Self::attach(child.id() as i32)?;
        run.child = Some(child);
        Ok(run)
    }

    /// Waits until a time; says whether the recording is over.
    pub(crate) fn wait(
        &mut self,
        until: Instant,
        started: Instant,
        duration: Option<Duration>,
        stop: &AtomicBool,
    ) -> Result<bool, ProfileError> {
        let now = Instant::now();
        let end = duration.map(|duration| started + duration).filter(|end| *end > now);
        let left = end.map_or(until, |end| until.min(end)).saturating_duration_since(now);
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut handle = [PollFd::from_borrowed_fd(self.handle.as_fd(), PollFlags::IN)];
        match poll(&mut handle, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(system("cannot wait for the process", error.into())),
        }
        let is_due = duration.is_some_and(|duration| started.elapsed() >= duration);
        let is_stopped = stop.load(Ordering::Relaxed);
        match (&self.child, self.asked_to_end) {
            _ if !is_due && !is_stopped => Ok(false),
            (None, _) => Ok(true),
            (Some(_), None) => {
                self.signal(Signal::TERM);
                self.asked_to_end = Some(Instant::now());
                Ok(false)
            }
            (Some(_), Some(asked)) => Ok(asked.elapsed() >= ENDS),
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // The process may have ended meanwhile; the number is not used again before the wait
            // for the process.
            let _gone = kill_process(pid, signal);
        }
    }

    /// Ends a command that was started.
    pub(crate) fn finish(&mut self) -> Option<ExitStatus> {
        let mut child = self.child.take()?;
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        self.signal(Signal::KILL);
        child.wait().ok()
    }
}

impl Drop for RecordedProcess {
    fn drop(&mut self) {
        // After a failure: a command that nothing records must not stay behind.
        if let Some(child) = &mut self.child {
            let _gone = child.kill();
            let _waited = child.wait();
        }
    }
}
