//! A process beside the server for one job, such as opening files that the server's sandbox
//! refuses.
//!
//! The server forks the process like the keeper, while the server has one thread. So the process
//! inherits all the memory of the server and runs the same binary. The process has no terminal and
//! blocks all signals. The process ends with the server, because its work ends when the socket is
//! closed.
//!
//! Leaves out the messages on the socket. Tested with real processes (`tests/processes/beside.rs`).

use crate::{
    error::ProcessStartError,
    process::{self, Forked},
    socket,
};
use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    process::{Pid, Signal, WaitOptions, kill_process, setsid, waitpid},
    stdio::{dup2_stdin, dup2_stdout},
};
use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    panic::{AssertUnwindSafe, catch_unwind},
};

/// A process beside this process. The process ends by itself when the other end of its socket is
/// closed.
#[derive(Debug)]
pub struct CompanionProcess {
    pid: Pid,
}

/// Forks a process that does `work` with its end of a socket pair, and gives this process the other
/// end. In the new process only `kept` and the standard descriptors are open: `work` must use no
/// others. Standard input and output are `/dev/null`, unless `kept` has standard output. Must be
/// called while this process has one thread.
///
/// # Errors
///
/// When this process has other threads, or the system refuses.
pub fn fork_beside(
    name: &CStr,
    kept: &[BorrowedFd<'_>],
    work: impl FnOnce(OwnedFd),
) -> Result<(CompanionProcess, OwnedFd), ProcessStartError> {
    let threads = process::threads().map_err(ProcessStartError::at("counting threads"))?;
    if threads != 1 {
        return Err(ProcessStartError::Threads { threads });
    }
    let (ours, theirs) = socket::pair().map_err(ProcessStartError::at("making a socket"))?;
    match process::fork().map_err(ProcessStartError::at("forking"))? {
        Forked::Parent(pid) => Ok((CompanionProcess { pid }, ours)),
        Forked::Child => {
            process::settle(name);
            let done = stand_alone(kept, &theirs).and_then(|()| {
                // A panic must not run on in the frames of the process that forked.
                catch_unwind(AssertUnwindSafe(|| work(theirs)))
                    .map_err(|_panic| io::Error::other("it panicked"))
            });
            process::exit(done.is_err().into())
        }
    }
}

fn stand_alone(kept: &[BorrowedFd<'_>], socket: &OwnedFd) -> io::Result<()> {
    // The call cannot fail, because a forked child is never the leader of its process group.
    setsid()?;
    let null = openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    dup2_stdin(&null)?;
    let stdout = io::stdout().as_raw_fd();
    if !kept.iter().any(|kept| kept.as_raw_fd() == stdout) {
        dup2_stdout(&null)?;
    }
    drop(null);
    process::close_all_but(kept.iter().copied().chain([socket.as_fd()]))
}

impl CompanionProcess {
    /// The number of the process.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Ends the process at once.
    pub fn end(self) {
        // The process may have ended by itself.
        let _ = kill_process(self.pid, Signal::KILL);
        self.wait();
    }

    /// Waits for the end of the process. To be called when this process's end of the socket is
    /// closed.
    pub fn wait(self) {
        // Another wait of this process may have come first.
        let _ = rustix::io::retry_on_intr(|| waitpid(Some(self.pid), WaitOptions::empty()));
    }
}
