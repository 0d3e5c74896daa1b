//! The old server's side: it hands over what it listens on, and goes on until the other one serves.

use super::{Address, Handed, Serves};
use crate::{listen::Listening, messages::Messages};
use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    time::{Duration, Instant},
};
use vermeil_spawn::socket;

/// How long a message may take that has begun to come. Guess: it is sent at once, unless by somebody else's program.
const PATIENCE: Duration = Duration::from_secs(5);

/// All that a server listens on.
pub(crate) struct Handing {
    pub(crate) listening: Vec<Listening>,
    /// For agent checks.
    pub(crate) agent: Vec<Listening>,
}

/// A process that is taking over.
pub(crate) struct Taker {
    messages: Messages,
    pid: u32,
}

impl AsFd for Taker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.messages.as_fd()
    }
}

impl Taker {
    /// Hands over to process `pid`, which has asked for it on the control socket at `path`.
    ///
    /// # Errors
    /// It does not listen.
    pub(crate) fn begin(
        client: &UnixStream,
        pid: u32,
        (path, control): (&Path, BorrowedFd<'_>),
        handing: &Handing,
    ) -> io::Result<Self> {
        let (messages, theirs) = Messages::pair()?;
        socket::send(client.as_fd(), LINK, &[theirs.as_fd()])?;
        let Handing { listening, agent } = handing;
        let handed = Handed {
            pid: std::process::id(),
            control: std::path::absolute(path)?,
            listening: listening.iter().map(Address::of).collect(),
            agent: agent.iter().map(Address::of).collect(),
        };
        let sockets = listening.iter().chain(agent).flat_map(|listening| &listening.sockets);
        let descriptors: Vec<_> = std::iter::once(control).chain(sockets.map(OwnedFd::as_fd)).collect();
        messages.send(&handed, &descriptors)?;
        Ok(Self { messages, pid })
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// To be called when there is something to hear: whether it serves, and if so, whether it has the control socket.
    pub(crate) fn serves(&mut self) -> Option<HasControl> {
        let Serves { has_control } = self.messages.receive(Some(Instant::now() + PATIENCE)).ok()??.0;
        Some(if has_control { HasControl::Yes } else { HasControl::No })
    }
}

/// What comes with the descriptor of the link: a stream carries none without a byte.
pub(super) const LINK: &[u8] = b"+";

/// Whether a process that took over answers the same control socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HasControl {
    Yes,
    No,
}
