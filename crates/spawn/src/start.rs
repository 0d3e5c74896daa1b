//! Starting: the keeper forked, profiles defined, channels opened.
//!
//! Everything here happens once, before a server serves, and may block for a moment. What comes later is in `revise.rs`. Tested with real processes
//! (`tests/processes.rs`).

use crate::{
    channel::Channel,
    error::{DefineError, StartError},
    keeper::{self, CHANNEL, DEFINE, SERVE, Verdict},
    process::{self, Forked},
    profile::{Profile, ProfileId},
    request::REQUEST_BYTES_MAX,
    revise::{ANSWER_PATIENCE, Reviser, Revisions, message},
    socket,
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

/// Forks the keeper. To be called while the process is small, before it starts a thread, opens what should not be known
/// to others, or gives up rights that programs need.
///
/// # Errors
/// When this process has other threads, or the system refuses.
pub fn start() -> Result<Preparation, StartError> {
    start_with(None)
}

/// As [`start`], with a way to read later what programs there may be besides those that are defined before
/// ([`Keeper::revisions`]).
///
/// # Errors
/// As there.
pub fn start_revisable(reviser: Reviser) -> Result<Preparation, StartError> {
    start_with(Some(reviser))
}

fn start_with(reviser: Option<Reviser>) -> Result<Preparation, StartError> {
    let threads = process::threads().map_err(StartError::at("counting threads"))?;
    if threads != 1 {
        return Err(StartError::Threads { threads });
    }
    let (control, keepers) = socket::pair().map_err(StartError::at("making a socket"))?;
    match process::fork().map_err(StartError::at("forking"))? {
        Forked::Child => keeper::run(keepers, reviser),
        Forked::Parent(pid) => Ok(Preparation { keeper: Keeper { control, pid } }),
    }
}

/// A keeper that waits to be told what programs there will be.
#[derive(Debug)]
pub struct Preparation {
    keeper: Keeper,
}

/// The keeper of a spawner. Both end, and all programs with them, when this is dropped or the process ends.
#[derive(Debug)]
pub struct Keeper {
    control: OwnedFd,
    pid: Pid,
}

impl Preparation {
    /// Says who programs run as and within what.
    ///
    /// # Errors
    /// What the profile asks for cannot be had, or should not.
    pub fn define(&mut self, profile: &Profile) -> Result<ProfileId, DefineError> {
        let message = message(DEFINE, profile)?;
        let keeper = |errno: Errno| DefineError::Keeper(errno.into());
        self.keeper.say(&message, &[]).map_err(keeper)?;
        let mut answer = vec![0; REQUEST_BYTES_MAX];
        let control = self.keeper.control.as_fd();
        let bytes = socket::hear(control, &mut answer, ANSWER_PATIENCE).map_err(keeper)?;
        match Verdict::from_bytes(&answer[..bytes]) {
            Ok(Verdict::Defined(number)) => Ok(ProfileId(number)),
            Ok(Verdict::Refused(error)) => Err(error),
            Err(_) => Err(keeper(Errno::PROTO)),
        }
    }

    /// Starts the spawner, with `count` channels to it: one for each core.
    ///
    /// # Errors
    /// When the system refuses, or keeper or spawner do not answer.
    pub fn serve(self, count: usize) -> Result<(Keeper, Vec<Channel>), StartError> {
        let keeper = self.keeper;
        let mut channels = Vec::with_capacity(count);
        for _ in 0..count {
            let (ours, spawners) = socket::pair().map_err(StartError::at("making a socket"))?;
            keeper.say(&[CHANNEL], &[spawners.as_fd()]).map_err(StartError::at("telling the keeper"))?;
            channels.push(ours);
        }
        keeper.say(&[SERVE], &[]).map_err(StartError::at("telling the keeper"))?;
        let channels = channels.into_iter().map(|socket| {
            socket::wait(socket.as_fd(), PollFlags::IN, ANSWER_PATIENCE)
                .map_err(StartError::at("waiting for the spawner"))?;
            Channel::open(socket).map_err(StartError::at("hearing the spawner"))
        });
        let channels = channels.collect::<Result<_, _>>()?;
        Ok((keeper, channels))
    }
}

impl Keeper {
    /// The number of the keeper's process.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// The way to have what programs there may be read anew; only one is to be used. It ends with the keeper.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn revisions(&self) -> io::Result<Revisions> {
        self.control.try_clone().map(Revisions::over)
    }

    /// Ends the spawner and all programs, and waits for that.
    pub fn stop(self) {
        let pid = self.pid;
        drop(self);
        // Whoever else waits for our children has done it.
        let _ = rustix::io::retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
    }

    fn say(&self, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        socket::say(self.control.as_fd(), message, descriptors, ANSWER_PATIENCE)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Revisions have a copy of the socket: closing ours would tell the keeper nothing.
        let _ = shutdown(&self.control, Shutdown::Both);
    }
}
