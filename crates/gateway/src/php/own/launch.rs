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

/// Bytes of a pool's output that are read at once.
const READ_BYTES: usize = 4096;

/// Reads of a pool's output in a row: 64 KiB, the content of a full pipe. A pool may write without
/// end, and the thread serves no other pool meanwhile.
const READS_MAX: usize = 16;

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

/// Reads the output of a pool, at most [`READS_MAX`] times.
pub(super) fn hear(stderr: &OwnedFd, mut take: impl FnMut(&[u8])) -> Hearing {
    let mut buffer = [0; READ_BYTES];
    for _ in 0..READS_MAX {
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
    Hearing::GoesOn
}

/// An exit in words.
pub(super) fn described(exit: ProgramExit) -> String {
    match exit.end {
        ProgramEnd::Code(code) => format!("ended with code {code}"),
        ProgramEnd::Signal(signal) => format!("was ended by signal {signal}"),
        ProgramEnd::Late => "was ended: its time was up".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::write;

    /// Regression: the reading of a pool that wrote without end never ended.
    #[test]
    fn endless_output_is_read_in_bounded_parts() {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let (piece, mut taken_bytes) = ([b'x'; READ_BYTES], 0);
        write(&theirs, &piece).expect("room");
        let hearing = hear(&ours, |bytes| {
            taken_bytes += bytes.len();
            assert!(taken_bytes <= READS_MAX * READ_BYTES, "{taken_bytes} bytes in a row");
            // The pool writes again, however much was read.
            write(&theirs, &piece).expect("room");
        });
        assert!(hearing == Hearing::GoesOn);
        assert_eq!(taken_bytes, READS_MAX * READ_BYTES);
    }

    #[test]
    fn output_is_over_at_its_end() {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        write(&theirs, b"words").expect("room");
        let mut heard = Vec::new();
        assert!(hear(&ours, |bytes| heard.extend_from_slice(bytes)) == Hearing::GoesOn);
        drop(theirs);
        assert!(hear(&ours, |bytes| heard.extend_from_slice(bytes)) == Hearing::Over);
        assert_eq!(heard, b"words");
    }
}
