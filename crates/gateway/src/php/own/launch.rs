//! Launching a pool: the request to the spawner, the pool's output, and the exit in words.
//!
//! `supervise.rs` (the server's own pool) and `demand.rs` (pools of hosts) decide when to launch.

use super::PoolPlan;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, read},
    pipe::{PipeFlags, pipe_with},
};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};
use vermeil_spawn::{
    Channel, Directory, JobId, ProfileId, Program, ProgramEnd, ProgramExit, ProgramRequest, SendObstacle,
    Stdio,
};

/// A pool requested from the spawner.
pub(super) struct PoolRequest {
    pub(super) job: JobId,
    /// Standard error of the pool.
    pub(super) stderr: OwnedFd,
}

/// Asks the spawner for the pool of `plan`, with `listener` as standard input.
///
/// # Errors
/// Why the spawner cannot be asked.
pub(super) fn ask(
    channel: &mut Channel,
    profile: ProfileId,
    plan: &PoolPlan,
    listener: &OwnedFd,
) -> Result<PoolRequest, String> {
    let (stderr, theirs) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| errno.to_string())?;
    let mut request = ProgramRequest::new(profile, Program::Listed(0));
    request.directory(Directory::Root);
    for argument in plan.arguments() {
        request.argument(argument.as_bytes());
    }
    for (name, value) in plan.variables() {
        request.variable(name.as_bytes(), value.as_bytes());
    }
    let stdio = stdio(listener, theirs).map_err(|error| error.to_string())?;
    let job = channel.spawn(request, stdio).map_err(|error| error.to_string())?;
    Ok(PoolRequest { job, stderr })
}

fn stdio(listener: &OwnedFd, stderr: OwnedFd) -> io::Result<Stdio> {
    Ok(Stdio { stdin: listener.try_clone()?, stdout: stderr.try_clone()?, stderr })
}

/// Whether more output may come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hearing {
    GoesOn,
    Over,
}

/// The events of the spawner's descriptor to wait for. While a request waits for room, room is an
/// event too.
pub(super) fn awaited(channel: &Channel) -> PollFlags {
    match channel.obstacle() {
        Some(SendObstacle::FullSocket) => PollFlags::IN | PollFlags::OUT,
        Some(SendObstacle::Refused) | None => PollFlags::IN,
    }
}

/// Reads the output of a pool.
pub(super) fn hear(stderr: &OwnedFd, mut take: impl FnMut(&[u8])) -> Hearing {
    let mut buffer = [0; 4096];
    loop {
        let mut polled = [PollFd::new(stderr, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if !matches!(poll(&mut polled, Some(&now)), Ok(1..)) {
            return Hearing::GoesOn;
        }
        match read(stderr.as_fd(), &mut buffer) {
            Ok(count @ 1..) => take(&buffer[..count]),
            Err(Errno::INTR) => {}
            Ok(0) | Err(_) => return Hearing::Over,
        }
    }
}

/// An exit in words.
pub(super) fn described(exit: ProgramExit) -> String {
    match exit.end {
        ProgramEnd::Code(code) => format!("ended with code {code}"),
        ProgramEnd::Signal(signal) => format!("was ended by signal {signal}"),
        ProgramEnd::Late => "was ended: its time was up".to_owned(),
    }
}
