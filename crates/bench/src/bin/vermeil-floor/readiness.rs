//! The loop of the floors that wait for readiness: one thread, one epoll set, one listener.
//!
//! Connections are edge-triggered and registered once. The slot of a connection is the number of
//! its descriptor. Leaves out the work of a ready connection (`epoll.rs`, `php.rs`).

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

/// Events per wait: more than the connections of any run (64), so one wait returns all ready
/// connections.
const EVENTS_PER_WAIT_MAX: usize = 512;
/// The event data of the listener. A connection carries its slot, which is never this number.
const LISTENER: u64 = u64::MAX;

/// A floor that waits for readiness.
pub(crate) trait ReadinessFloor {
    fn epoll(&self) -> &EpollSet;

    /// Takes an accepted, non-blocking connection.
    fn on_accept(&mut self, socket: OwnedFd) -> io::Result<()>;

    /// Does the work of the connection in `slot`, which may be closed already.
    fn on_ready(&mut self, slot: usize) -> io::Result<()>;
}

/// The watched connections.
pub(crate) struct EpollSet(OwnedFd);

impl EpollSet {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(CreateFlags::CLOEXEC)?))
    }

    /// Watches a connection for edges of `events`, and returns its slot.
    pub(crate) fn watch(&self, socket: &OwnedFd, events: EventFlags) -> io::Result<usize> {
        let slot = socket.as_raw_fd() as usize;
        epoll::add(&self.0, socket, EventData::new_u64(slot as u64), events | EventFlags::ET)?;
        Ok(slot)
    }
}

/// Serves until the process is killed.
pub(crate) fn run(listener: &TcpListener, floor: &mut impl ReadinessFloor) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    epoll::add(&floor.epoll().0, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut events: Vec<Event> = Vec::with_capacity(EVENTS_PER_WAIT_MAX);
    loop {
        events.clear();
        match epoll::wait(&floor.epoll().0, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            match event.data.u64() {
                LISTENER => accept_all(listener, floor)?,
                slot => floor.on_ready(slot as usize)?,
            }
        }
    }
}

fn accept_all(listener: &TcpListener, floor: &mut impl ReadinessFloor) -> io::Result<()> {
    loop {
        match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => floor.on_accept(socket)?,
            Err(Errno::AGAIN) => return Ok(()),
            Err(Errno::CONNABORTED | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
