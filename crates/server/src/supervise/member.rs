//! One instance as the supervisor has it: its process, its link, and how often it was started again.
//!
//! Owns starting a process and waiting for its end without ever signalling a number that is somebody else's by now. Leaves
//! out when it is started (`supervisor.rs`). Tested through the binary (`crates/cli/tests/e2e/instances.rs`).

use super::link::{self, Answer, Link, Order};
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

/// What an instance is started as, in front of the arguments of its supervisor.
pub const INSTANCE_COMMAND: &str = "instance";

/// How long an instance may take from its start to its first connection. Guess: PHP's pool takes a second, and a hundred
/// thousand hosts another.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// How long an instance that has hung up may take to end. Guess: a line of text and an exit.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// Between two looks whether it has: nobody waits for it meanwhile.
const END_LOOK: Duration = Duration::from_millis(5);

/// Between two looks whether nobody else asks an instance.
const LINK_LOOK: Duration = Duration::from_millis(5);

/// One instance.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) number: u32,
    pub(super) instance: Instance,
    /// Its first core among those of all instances.
    pub(super) first_core: usize,
    life: Mutex<Life>,
}

#[derive(Debug, Default)]
struct Life {
    /// While there is a process.
    process: Option<Pid>,
    /// While it serves.
    link: Option<Arc<Mutex<Link>>>,
    starts: u64,
}

impl Member {
    pub(super) fn new(number: u32, instance: Instance, first_core: usize) -> Self {
        Self { number, instance, first_core, life: Mutex::default() }
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().expect("nothing panics under this lock")
    }

    /// How often it was started again.
    pub(super) fn restarts(&self) -> u64 {
        self.life().starts.saturating_sub(1)
    }

    /// Whether it serves.
    pub(super) fn serves(&self) -> bool {
        self.life().link.is_some()
    }

    /// Starts its process with these arguments, gives it its order, and waits until it serves.
    ///
    /// # Errors
    /// It could not be started, or it ended instead: then there is none.
    pub(super) fn start(
        &self,
        arguments: &[OsString],
        order: &Order,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Child, StartFailure> {
        let (mut link, theirs) = link::pair().map_err(StartFailure::Cannot)?;
        let mut command = Command::new("/proc/self/exe");
        // A group of its own: what a terminal signals is for the supervisor to pass on.
        command.arg0("vermeil").arg(INSTANCE_COMMAND).args(arguments).process_group(0);
        let mut child = command.stdin(Stdio::from(theirs)).spawn().map_err(StartFailure::Cannot)?;
        // It holds the instance's end of the link.
        drop(command);
        {
            let mut life = self.life();
            life.process = Some(pid_of(&child));
            life.starts += 1;
        }
        match link.ask(order, descriptors, START_PATIENCE) {
            Ok(Answer::Started) => {
                self.life().link = Some(Arc::new(Mutex::new(link)));
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

    /// Waits for the end of its process.
    pub(super) fn wait(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(error) = waitid(WaitId::Pid(pid_of(child)), options) {
            if error != rustix::io::Errno::INTR {
                return Err(error.into());
            }
        }
        // Its number is free only after the wait below, and nobody knows it then.
        let mut life = self.life();
        (life.process, life.link) = (None, None);
        child.wait()
    }

    /// Signals its process, if there is one, which it gives.
    pub(super) fn signal(&self, signal: Signal) -> Option<Pid> {
        // Under the lock: its number may be somebody else's once it was waited for.
        let life = self.life();
        let pid = life.process?;
        // It may have ended, and is waited for by somebody.
        let _ = kill_process(pid, signal);
        Some(pid)
    }

    /// Gives an order and waits for the answer.
    ///
    /// # Errors
    /// It does not serve, or does not answer in time.
    pub(super) fn ask(
        &self,
        order: &Order,
        descriptors: &[BorrowedFd<'_>],
        patience: Duration,
    ) -> io::Result<Answer> {
        let link = self.life().link.clone().ok_or(io::ErrorKind::NotConnected)?;
        let deadline = Instant::now() + patience;
        loop {
            if let Ok(mut link) = link.try_lock() {
                return link.ask(order, descriptors, deadline.saturating_duration_since(Instant::now()));
            }
            // Somebody else asks it, and may have more patience.
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(LINK_LOOK);
        }
    }

    /// As [`ask`](Self::ask), unless it is being asked something already: then nothing.
    pub(super) fn ask_if_free(&self, order: &Order, patience: Duration) -> Option<io::Result<Answer>> {
        let Some(link) = self.life().link.clone() else {
            return Some(Err(io::ErrorKind::NotConnected.into()));
        };
        let mut link = link.try_lock().ok()?;
        Some(link.ask(order, &[], patience))
    }
}

/// Why an instance did not come to serve.
#[derive(Debug)]
pub(super) enum StartFailure {
    /// There is no process.
    Cannot(io::Error),
    /// It ended, and has said why.
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

/// Whether a process that has hung up comes to its end: it may have to say why yet.
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

/// Whether a process has ended, without waiting for it to.
fn has_ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    waitid(WaitId::Pid(pid_of(child)), options).is_ok_and(|status| status.is_some())
}
