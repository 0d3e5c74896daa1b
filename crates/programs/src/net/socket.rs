//! A connected or listening socket that any core may use.

use super::Readiness;
use rustix::{
    buffer::spare_capacity,
    event::epoll::EventFlags,
    io::Errno,
    net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send},
};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// What a socket that would block waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Something to read, a connection to accept, or the end.
    Input,
    /// Room to write.
    Output,
}

/// A non-blocking socket. Calls never wait: they fail with `WouldBlock`, and [`wait`](Self::wait) asks for an event.
pub struct Socket {
    fd: OwnedFd,
    readiness: Arc<Readiness>,
    place: AtomicUsize,
}

/// No place yet.
const NOWHERE: usize = usize::MAX;

impl Socket {
    /// Takes over a non-blocking socket; nobody is told of anything yet.
    pub fn new(fd: OwnedFd, readiness: Arc<Readiness>) -> Self {
        Self { fd, readiness, place: AtomicUsize::new(NOWHERE) }
    }

    /// From now on `tell` is called when the socket is ready; the first time when it has input.
    ///
    /// # Errors
    /// What epoll_ctl(2) says.
    pub fn watch(&self, tell: impl Fn() + Send + Sync + 'static) -> io::Result<()> {
        let place = self.readiness.add(self.fd.as_fd(), Arc::new(tell))?;
        self.place.store(place, Ordering::Release);
        Ok(())
    }

    /// Asks to be told once more.
    ///
    /// # Errors
    /// What epoll_ctl(2) says.
    pub fn wait(&self, wait: Wait) -> io::Result<()> {
        let flags = match wait {
            Wait::Input => EventFlags::IN | EventFlags::RDHUP,
            Wait::Output => EventFlags::OUT,
        };
        self.readiness.again(self.fd.as_fd(), self.place.load(Ordering::Acquire), flags)
    }

    /// Stops watching; dropping the socket then closes it. Without this, what tells it would keep it alive.
    pub fn forget(&self) {
        self.readiness.forget(self.place.load(Ordering::Acquire));
    }

    /// The next connection, watched where this one is.
    ///
    /// # Errors
    /// What accept(2) says.
    pub fn accept(&self) -> io::Result<Self> {
        let fd = accept_with(&self.fd, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
        Ok(Self::new(fd, self.readiness.clone()))
    }

    /// Appends at most `count` bytes to `buffer`; 0 is the end.
    ///
    /// # Errors
    /// What recv(2) says.
    pub fn recv(&self, buffer: &mut Vec<u8>, count: usize) -> io::Result<usize> {
        buffer.reserve_exact(count);
        loop {
            match recv(&self.fd, spare_capacity(buffer), RecvFlags::empty()) {
                Ok((count, _)) => return Ok(count),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends what there is room for.
    ///
    /// # Errors
    /// What send(2) says.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match send(&self.fd, bytes, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                sent => return Ok(sent?),
            }
        }
    }
}
