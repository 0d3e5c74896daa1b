//! The floor with epoll: a receive and a send per request, plus a share of a wait.
//!
//! One thread, edge-triggered: each connection is registered once, for both directions. One receive
//! per event is enough, because the next request comes only after the response. The response's
//! bytes are in `response.rs`.

use std::io;
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, accept_with, recv};

use crate::response::{RepeatedResponse, SendProgress};

/// Events per wait: more than the connections of any run (64), so one wait returns all ready
/// connections.
const EVENTS_PER_WAIT_MAX: usize = 512;
/// Bytes per receive: well above wrk's requests (under 200 bytes).
const RECEIVE_BYTES: usize = 4096;
/// The event data of the listener; connections carry their descriptor's number, which is never
/// this.
const LISTENER: u64 = u64::MAX;

struct EpollConnection {
    socket: OwnedFd,
    sent: u64,
    blocked: bool,
}

struct EpollFloor<'a> {
    epoll: OwnedFd,
    response: &'a RepeatedResponse,
    connections: Vec<Option<EpollConnection>>,
}

/// Serves until the process is killed.
pub(crate) fn run(listener: &TcpListener, response: &RepeatedResponse) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut floor = EpollFloor { epoll, response, connections: Vec::new() };
    let mut events: Vec<Event> = Vec::with_capacity(EVENTS_PER_WAIT_MAX);
    loop {
        events.clear();
        match epoll::wait(&floor.epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            match event.data.u64() {
                LISTENER => floor.accept_all(listener)?,
                fd => floor.on_ready(fd as usize),
            }
        }
    }
}

impl EpollFloor<'_> {
    fn accept_all(&mut self, listener: &TcpListener) -> io::Result<()> {
        loop {
            match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => {
                    let edges = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
                    let slot = socket.as_raw_fd() as usize;
                    epoll::add(&self.epoll, &socket, EventData::new_u64(slot as u64), edges)?;
                    if self.connections.len() <= slot {
                        self.connections.resize_with(slot + 1, || None);
                    }
                    self.connections[slot] = Some(EpollConnection { socket, sent: 0, blocked: false });
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn on_ready(&mut self, slot: usize) {
        let Some(Some(connection)) = self.connections.get_mut(slot) else { return };
        if !matches!(answer(connection, self.response), Ok(Alive::Yes)) {
            self.connections[slot] = None;
        }
    }
}

/// Whether a connection has a next request to come.
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
