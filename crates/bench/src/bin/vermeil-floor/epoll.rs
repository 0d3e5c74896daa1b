//! The floor with epoll: one receive and one send per request, plus a share of one wait.
//!
//! Level-triggered, one thread. A connection is registered for reading; only while a response does not fit the send
//! buffer is it registered for writing instead. Owns no bytes: see `response.rs`.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, accept_with, recv};

use crate::response::{Progress, Response};

/// Events taken per wait: more than the connections of any run (64), so that one wait sees all that is ready.
const EVENTS_PER_WAIT_MAX: usize = 512;
/// Bytes per receive: well above wrk's requests (under 200 bytes).
const RECEIVE_BYTES: usize = 4096;
/// The event data of the listener; connections carry their descriptor's number, which is never this.
const LISTENER: u64 = u64::MAX;

struct Connection {
    socket: OwnedFd,
    sent: u64,
}

struct Floor<'a> {
    epoll: OwnedFd,
    response: &'a Response,
    connections: Vec<Option<Connection>>,
}

/// Serves until the process is killed.
pub(crate) fn run(listener: &TcpListener, response: &Response) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut floor = Floor { epoll, response, connections: Vec::new() };
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
                fd => floor.on_ready(fd as usize, event.flags)?,
            }
        }
    }
}

impl Floor<'_> {
    fn accept_all(&mut self, listener: &TcpListener) -> io::Result<()> {
        loop {
            match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => {
                    let slot = socket.as_raw_fd() as usize;
                    epoll::add(&self.epoll, &socket, EventData::new_u64(slot as u64), EventFlags::IN)?;
                    if self.connections.len() <= slot {
                        self.connections.resize_with(slot + 1, || None);
                    }
                    self.connections[slot] = Some(Connection { socket, sent: 0 });
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn on_ready(&mut self, slot: usize, ready: EventFlags) -> io::Result<()> {
        let Some(Some(connection)) = self.connections.get_mut(slot) else { return Ok(()) };
        let was_blocked = ready.contains(EventFlags::OUT);
        match answer(connection, self.response, was_blocked) {
            Ok(Some(progress)) => {
                let blocked = progress == Progress::Blocked;
                if was_blocked != blocked {
                    let interest = if blocked { EventFlags::OUT } else { EventFlags::IN };
                    epoll::modify(
                        &self.epoll,
                        &connection.socket,
                        EventData::new_u64(slot as u64),
                        interest,
                    )?;
                }
            }
            Ok(None) | Err(_) => self.connections[slot] = None,
        }
        Ok(())
    }
}

/// One receive, unless a response is still going out, and as much of the response as fits; `None` at the end of the
/// connection.
fn answer(connection: &mut Connection, response: &Response, blocked: bool) -> io::Result<Option<Progress>> {
    if !blocked {
        let mut request = [0u8; RECEIVE_BYTES];
        match recv(&connection.socket, &mut request, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Ok(None),
            Ok(_) => connection.sent = 0,
            Err(Errno::AGAIN) => return Ok(Some(Progress::Done)),
            Err(error) => return Err(error.into()),
        }
    }
    response.send(&connection.socket, &mut connection.sent).map(Some)
}
