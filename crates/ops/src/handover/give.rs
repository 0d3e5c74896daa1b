//! The old server's side: hands over its listening sockets, and serves until the new server does.

use super::{AddressSockets, Handed, Serves};
use crate::messages::Messages;
use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    time::{Duration, Instant},
};
use vermeil_accept::listening::Listening;
use vermeil_spawn::socket;
use vermeil_tls::TicketSecret;

/// Longest time for the rest of a message that has begun to arrive. The sender is the same binary
/// on this machine, which sends a message with one call; a stopped sender must not hold the thread.
const PATIENCE: Duration = Duration::from_secs(5);

/// All listening sockets of a server.
pub struct Handing {
    /// The listening sockets.
    pub listening: Vec<Listening>,
    /// Sockets for agent checks.
    pub agent: Vec<Listening>,
    /// The secret of TLS session tickets.
    pub tickets: TicketSecret,
}

/// A process that is taking over from this server.
pub struct Taker {
    messages: Messages,
    pid: u32,
}

impl AsFd for Taker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.messages.as_fd()
    }
}

impl Taker {
    /// Hands the sockets over to process `pid`, which asked on the control socket at `path`.
    ///
    /// # Errors
    /// The other process does not read from its connection.
    pub fn begin(
        client: &UnixStream,
        pid: u32,
        (path, control): (&Path, BorrowedFd<'_>),
        handing: &Handing,
    ) -> io::Result<Self> {
        let (messages, theirs) = Messages::pair()?;
        socket::send(client.as_fd(), LINK, &[theirs.as_fd()])?;
        let Handing { listening, agent, tickets } = handing;
        let handed = Handed {
            pid: std::process::id(),
            control: std::path::absolute(path)?,
            listening: listening.iter().map(AddressSockets::of).collect(),
            agent: agent.iter().map(AddressSockets::of).collect(),
            tickets: Some(tickets.clone()),
        };
        let sockets = listening.iter().chain(agent).flat_map(|listening| &listening.sockets);
        let descriptors: Vec<_> = std::iter::once(control).chain(sockets.map(OwnedFd::as_fd)).collect();
        messages.send(&handed, &descriptors)?;
        Ok(Self { messages, pid })
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Call when the link is readable. Returns `None` unless the other process serves; otherwise
    /// whether that process has the control socket.
    pub fn serves(&mut self) -> Option<HasControl> {
        let Serves { has_control } = self.messages.receive(Some(Instant::now() + PATIENCE)).ok()??.0;
        Some(if has_control { HasControl::Yes } else { HasControl::No })
    }
}

/// Sent with the link's descriptor, because a stream passes no descriptor without a byte.
pub(super) const LINK: &[u8] = b"+";

/// Whether the process that took over answers the same control socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HasControl {
    /// The process answers it.
    Yes,
    /// The process does not answer it.
    No,
}
