//! Starting: forking the keeper, defining profiles, opening channels.
//!
//! All steps happen once, before a server serves, and may block for a moment. Later changes are in
//! `revise.rs`. Tested with real processes (`tests/processes.rs`).

use crate::{
    channel::Channel,
    error::{DefineError, ProcessStartError},
    keeper_messages::{CHANNEL, DEFINE, ProfileVerdict, SERVE},
    process::{self, Forked},
    profile::{Profile, ProfileId},
    request::REQUEST_BYTES_MAX,
    revise::{ANSWER_PATIENCE, Reviser, Revisions, message},
    socket, supervisor,
};
use rustix::{
    event::PollFlags,
    io::Errno,
    net::{Shutdown, shutdown},
    process::{Pid, WaitOptions, waitpid},
};
use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

/// Forks the keeper. Call this while the process is small, before the process starts a thread,
/// opens secret files, or gives up rights that programs need.
///
/// # Errors
///
/// When this process has other threads, or the system refuses.
pub fn start() -> Result<Preparation, ProcessStartError> {
    start_with(None)
}

/// As [`start`], with a function that can later read the allowed programs again, in addition to
/// those defined before ([`SpawnSupervisorHandle::revisions`]).
///
/// # Errors
///
/// As [`start`].
pub fn start_revisable(reviser: Reviser) -> Result<Preparation, ProcessStartError> {
    start_with(Some(reviser))
}

fn start_with(reviser: Option<Reviser>) -> Result<Preparation, ProcessStartError> {
    let threads = process::threads().map_err(ProcessStartError::at("counting threads"))?;
    if threads != 1 {
        return Err(ProcessStartError::Threads { threads });
    }
    let (control, keepers) = socket::pair().map_err(ProcessStartError::at("making a socket"))?;
    match process::fork().map_err(ProcessStartError::at("forking"))? {
        Forked::Child => supervisor::run(keepers, reviser),
        Forked::Parent(pid) => Ok(Preparation { keeper: SpawnSupervisorHandle { control, pid } }),
    }
}

/// A keeper that waits for the definitions of programs.
#[derive(Debug)]
pub struct Preparation {
    keeper: SpawnSupervisorHandle,
}

/// The keeper of a spawner. Keeper and spawner end, and all programs with them, when this is
/// dropped or the process ends.
#[derive(Debug)]
pub struct SpawnSupervisorHandle {
    control: OwnedFd,
    pid: Pid,
}

impl Preparation {
    /// Defines the user and the limits of programs.
    ///
    /// # Errors
    ///
    /// The profile is not available, or is refused.
    pub fn define(&mut self, profile: &Profile) -> Result<ProfileId, DefineError> {
        let message = message(DEFINE, profile)?;
        let keeper = |errno: Errno| DefineError::Keeper(errno.into());
        self.keeper.say(&message, &[]).map_err(keeper)?;
        let mut answer = vec![0; REQUEST_BYTES_MAX];
        let control = self.keeper.control.as_fd();
        let bytes = socket::hear(control, &mut answer, ANSWER_PATIENCE).map_err(keeper)?;
        match ProfileVerdict::from_bytes(&answer[..bytes]) {
            Ok(ProfileVerdict::Defined(number)) => Ok(ProfileId(number)),
            Ok(ProfileVerdict::Refused(error)) => Err(error),
            Err(_) => Err(keeper(Errno::PROTO)),
        }
    }

    /// Starts the spawner, with `count` channels: one channel for each core.
    ///
    /// # Errors
    ///
    /// When the system refuses, or keeper or spawner do not answer.
    pub fn serve(self, count: usize) -> Result<(SpawnSupervisorHandle, Vec<Channel>), ProcessStartError> {
        let keeper = self.keeper;
        let mut channels = Vec::with_capacity(count);
        for _ in 0..count {
            let (ours, spawners) = socket::pair().map_err(ProcessStartError::at("making a socket"))?;
            keeper
                .say(&[CHANNEL], &[spawners.as_fd()])
                .map_err(ProcessStartError::at("telling the keeper"))?;
            channels.push(ours);
        }
        keeper.say(&[SERVE], &[]).map_err(ProcessStartError::at("telling the keeper"))?;
        let channels = channels.into_iter().map(|socket| {
            socket::wait(socket.as_fd(), PollFlags::IN, ANSWER_PATIENCE)
                .map_err(ProcessStartError::at("waiting for the spawner"))?;
            Channel::open(socket).map_err(ProcessStartError::at("hearing the spawner"))
        });
        let channels = channels.collect::<Result<_, _>>()?;
        Ok((keeper, channels))
    }
}

impl SpawnSupervisorHandle {
    /// The number of the keeper's process.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// The handle for reading the allowed programs again. The caller must use only one handle. The
    /// handle ends with the keeper.
    ///
    /// # Errors
    ///
    /// When there are no descriptors left.
    pub fn revisions(&self) -> io::Result<Revisions> {
        self.control.try_clone().map(Revisions::over)
    }

    /// Ends the spawner and all programs, and waits for that.
    pub fn stop(self) {
        let pid = self.pid;
        drop(self);
        // Other code that waits for all children may have waited for the keeper already.
        let _ = rustix::io::retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
    }

    fn say(&self, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        socket::say(self.control.as_fd(), message, descriptors, ANSWER_PATIENCE)
    }
}

impl Drop for SpawnSupervisorHandle {
    fn drop(&mut self) {
        // Revisions have a copy of the socket, so closing this socket would tell the keeper
        // nothing.
        let _ = shutdown(&self.control, Shutdown::Both);
    }
}
