//! One instance as the supervisor sees it: process, link and number of restarts.
//!
//! Starts the process and waits for the end. Never signals a process id after the wait, because the
//! kernel may have reused the id. `supervisor.rs` decides when to start. Tested through the binary
//! (`crates/e2e/tests/e2e/instances.rs`).

use crate::instance::ipc::{self, InstanceAnswer, InstanceCommand, Ipc};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::{
    ffi::OsString,
    io,
    os::{fd::BorrowedFd, unix::process::CommandExt as _},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard},
    thread,
    time::{Duration, Instant},
};
use vermeil_topology::Instance;

/// The subcommand of an instance, in front of the supervisor's own arguments.
pub const INSTANCE_COMMAND: &str = "instance";

/// Longest time from the start of an instance to the first connection. PHP's pool takes a second,
/// and a hundred thousand hosts take a fifth of a second (`bench tail`). The limit only ends a wait
/// for an instance that hangs.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// Longest time from an instance's hang-up to the end. The process prints a line and exits; the
/// limit only ends a wait for a process that hangs.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// Interval of checks for that end. Nothing else waits meanwhile.
const END_LOOK: Duration = Duration::from_millis(5);

/// Interval of checks whether the link is free.
const LINK_LOOK: Duration = Duration::from_millis(5);

/// One instance.
#[derive(Debug)]
pub(super) struct InstanceHandle {
    pub(super) number: u32,
    pub(super) instance: Instance,
    /// First core of the instance, among the cores of all instances.
    pub(super) first_core: usize,
    life: Mutex<InstanceLife>,
}

#[derive(Debug, Default)]
struct InstanceLife {
    /// `Some` while there is a process.
    process: Option<Pid>,
    /// `Some` while the instance serves.
    link: Option<Arc<Mutex<Ipc>>>,
    starts: u64,
    /// Number of requests to reopen the log.
    reopens: u64,
}

impl InstanceLife {
    fn signal(&self, signal: Signal) -> Option<Pid> {
        let pid = self.process?;
        // Fails for a process that has ended and awaits its `wait`.
        let _ = kill_process(pid, signal);
        Some(pid)
    }
}

impl InstanceHandle {
    pub(super) fn new(number: u32, instance: Instance, first_core: usize) -> Self {
        Self { number, instance, first_core, life: Mutex::default() }
    }

    fn life(&self) -> MutexGuard<'_, InstanceLife> {
        self.life.lock().expect("nothing panics under this lock")
    }

    /// Number of restarts.
    pub(super) fn restarts(&self) -> u64 {
        self.life().starts.saturating_sub(1)
    }

    /// Whether the instance serves.
    pub(super) fn serves(&self) -> bool {
        self.life().link.is_some()
    }

    /// Starts the process with these arguments, sends `order`, and waits until the instance serves.
    ///
    /// # Errors
    /// The process could not be started, or ended early. No process is left.
    pub(super) fn start(
        &self,
        arguments: &[OsString],
        order: &InstanceCommand,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Child, StartFailure> {
        let (mut link, theirs) = ipc::pair().map_err(StartFailure::Cannot)?;
        let mut command = Command::new("/proc/self/exe");
        // A process group of its own, because the supervisor passes the terminal's signals on.
        command.arg0("vermeil").arg(INSTANCE_COMMAND).args(arguments).process_group(0);
        let mut child = command.stdin(Stdio::from(theirs)).spawn().map_err(StartFailure::Cannot)?;
        // `command` holds the instance's end of the link.
        drop(command);
        let reopens = {
            let mut life = self.life();
            life.process = Some(pid_of(&child));
            life.starts += 1;
            life.reopens
        };
        match link.ask(order, descriptors, START_PATIENCE) {
            Ok(InstanceAnswer::Started) => {
                let mut life = self.life();
                life.link = Some(Arc::new(Mutex::new(link)));
                if life.reopens != reopens {
                    life.signal(Signal::USR1);
                }
                Ok(child)
            }
            answered => {
                if answered.is_ok() || !ends_soon(&child) {
                    self.signal(Signal::KILL);
                }
                Err(StartFailure::Ended(self.wait(&mut child).map_err(StartFailure::Cannot)?))
            }
        }
    }

    /// Waits for the end of the process.
    pub(super) fn wait(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(error) = waitid(WaitId::Pid(pid_of(child)), options) {
            if error != rustix::io::Errno::INTR {
                return Err(error.into());
            }
        }
        // The process id stays reserved until the wait below. Clear it first, so that no thread
        // signals a reused id.
        let mut life = self.life();
        (life.process, life.link) = (None, None);
        child.wait()
    }

    /// Signals the process, if there is one, and returns the id.
    pub(super) fn signal(&self, signal: Signal) -> Option<Pid> {
        // Under the lock, because the id may be reused after the wait.
        self.life().signal(signal)
    }

    /// Makes the instance reopen its log. A starting instance gets the signal once it serves,
    /// because the signal ends a process that does not watch for signals yet.
    pub(super) fn reopen_log(&self) {
        let mut life = self.life();
        life.reopens += 1;
        if life.link.is_some() {
            life.signal(Signal::USR1);
        }
    }

    /// Gives an order and waits for the answer.
    ///
    /// # Errors
    /// The instance does not serve, or does not answer in time.
    pub(super) fn ask(
        &self,
        order: &InstanceCommand,
        descriptors: &[BorrowedFd<'_>],
        patience: Duration,
    ) -> io::Result<InstanceAnswer> {
        let link = self.life().link.clone().ok_or(io::ErrorKind::NotConnected)?;
        let deadline = Instant::now() + patience;
        loop {
            if let Ok(mut link) = link.try_lock() {
                return link.ask(order, descriptors, deadline.saturating_duration_since(Instant::now()));
            }
            // Another thread is asking the instance, perhaps with a longer time limit.
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(LINK_LOOK);
        }
    }

    /// Like [`ask`](Self::ask), but returns `None` if another order is under way.
    pub(super) fn ask_if_free(
        &self,
        order: &InstanceCommand,
        patience: Duration,
    ) -> Option<io::Result<InstanceAnswer>> {
        let Some(link) = self.life().link.clone() else {
            return Some(Err(io::ErrorKind::NotConnected.into()));
        };
        let mut link = link.try_lock().ok()?;
        Some(link.ask(order, &[], patience))
    }
}

/// Why an instance failed to start.
#[derive(Debug)]
pub(super) enum StartFailure {
    /// There is no process.
    Cannot(io::Error),
    /// The process ended, and has logged the reason.
    Ended(ExitStatus),
}

impl std::fmt::Display for StartFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cannot(error) => write!(f, "it cannot be started: {error}"),
            Self::Ended(status) => write!(f, "it ended before it served ({status})"),
        }
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed()).expect("a process has a number above zero")
}

/// Whether a process that has hung up ends soon. The process may still have to log the reason.
fn ends_soon(child: &Child) -> bool {
    let deadline = Instant::now() + END_PATIENCE;
    while !has_ended(child) {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(END_LOOK);
    }
    true
}

/// Whether a process has ended. Does not block.
fn has_ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    waitid(WaitId::Pid(pid_of(child)), options).is_ok_and(|status| status.is_some())
}
