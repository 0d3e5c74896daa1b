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

/// The event that a blocked socket waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketWait {
    /// Input, a connection to accept, or the end.
    Input,
    /// Room to write.
    Output,
}

/// A non-blocking socket. Calls never wait: they fail with `WouldBlock`, and [`wait`](Self::wait)
/// requests an event.
pub struct Socket {
    fd: OwnedFd,
    readiness: Arc<Readiness>,
    place: AtomicUsize,
}

/// No slot yet.
const NOWHERE: usize = usize::MAX;

impl Socket {
    /// Takes over a non-blocking socket; no callback yet.
    pub fn new(fd: OwnedFd, readiness: Arc<Readiness>) -> Self {
        Self { fd, readiness, place: AtomicUsize::new(NOWHERE) }
    }

    /// Calls `tell` from now on when the socket is ready; the first time when there is input.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn watch(&self, tell: impl Fn() + Send + Sync + 'static) -> io::Result<()> {
        let place = self.readiness.keep(Arc::new(tell));
        // The slot is known before the first event, because another core may handle that event, and
        // wait again, at once.
        self.place.store(place, Ordering::Release);
        self.readiness.add(self.fd.as_fd(), place).inspect_err(|_| self.forget())
    }

    /// Requests one more notification.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn wait(&self, wait: SocketWait) -> io::Result<()> {
        let flags = match wait {
            SocketWait::Input => EventFlags::IN | EventFlags::RDHUP,
            SocketWait::Output => EventFlags::OUT,
        };
        self.readiness.again(self.fd.as_fd(), self.place.load(Ordering::Acquire), flags)
    }

    /// Stops watching; dropping the socket then closes the descriptor. Without this call, the
    /// callback would keep the socket alive.
    pub fn forget(&self) {
        self.readiness.forget(self.place.swap(NOWHERE, Ordering::AcqRel));
    }

    /// The next connection, watched by the same core.
    ///
    /// # Errors
    /// As accept(2).
    pub fn accept(&self) -> io::Result<Self> {
        let fd = accept_with(&self.fd, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
        Ok(Self::new(fd, self.readiness.clone()))
    }

    /// Appends at most `count` bytes to `buffer`; 0 is the end.
    ///
    /// # Errors
    /// As recv(2).
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

    /// Sends as many bytes as fit.
    ///
    /// # Errors
    /// As send(2).
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match send(&self.fd, bytes, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                sent => return Ok(sent?),
            }
        }
    }
}
