//! The floor with epoll: a receive and a send per request, plus a share of a wait.
//!
//! Each connection is registered once, for both directions (`readiness.rs`). One receive per event
//! is enough, because the next request comes only after the response. The response's bytes are in
//! `response.rs`.

use std::io;
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::OwnedFd;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::readiness::{self, EpollSet, ReadinessFloor};
use crate::response::{RepeatedResponse, SendProgress};

/// Bytes per receive: well above wrk's requests (under 200 bytes).
pub(crate) const RECEIVE_BYTES: usize = 4096;

struct EpollConnection {
    socket: OwnedFd,
    /// Bytes of the current response that the kernel has taken.
    sent: u64,
    /// Whether the rest of the response waits for room.
    blocked: bool,
}

struct EpollFloor<'a> {
    epoll: EpollSet,
    response: &'a RepeatedResponse,
    /// Indexed by slot.
    connections: Vec<Option<EpollConnection>>,
}

/// Serves until the process is killed.
pub(crate) fn run(listener: &TcpListener, response: &RepeatedResponse) -> io::Result<()> {
    let mut floor = EpollFloor { epoll: EpollSet::new()?, response, connections: Vec::new() };
    readiness::run(listener, &mut floor)
}

impl ReadinessFloor for EpollFloor<'_> {
    fn epoll(&self) -> &EpollSet {
        &self.epoll
    }

    fn on_accept(&mut self, socket: OwnedFd) -> io::Result<()> {
        let slot = self.epoll.watch(&socket, EventFlags::IN | EventFlags::OUT)?;
        if self.connections.len() <= slot {
            self.connections.resize_with(slot + 1, || None);
        }
        self.connections[slot] = Some(EpollConnection { socket, sent: 0, blocked: false });
        Ok(())
    }

    fn on_ready(&mut self, slot: usize) -> io::Result<()> {
        if let Some(Some(connection)) = self.connections.get_mut(slot)
            && !matches!(answer(connection, self.response), Ok(Alive::Yes))
        {
            self.connections[slot] = None;
        }
        Ok(())
    }
}

/// Whether the client may send another request.
enum Alive {
    Yes,
    No,
}

/// Continues an unfinished response, or receives one request and starts the next response.
fn answer(connection: &mut EpollConnection, response: &RepeatedResponse) -> io::Result<Alive> {
    if !connection.blocked {
        let mut request = [MaybeUninit::<u8>::uninit(); RECEIVE_BYTES];
        match recv(&connection.socket, &mut request[..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return Ok(Alive::No),
            Ok(_) => connection.sent = 0,
            Err(Errno::AGAIN) => return Ok(Alive::Yes),
            Err(error) => return Err(error.into()),
        }
    }
    connection.blocked = response.send(&connection.socket, &mut connection.sent)? == SendProgress::Blocked;
    Ok(Alive::Yes)
}
