//! The driver of one core: one interface, two implementations.
//!
//! Owns the choice between io_uring and epoll and the text that explains it; every call is handed on by one predictable
//! branch. The contract of each call is written here and holds for both; `tests/suite` runs every case on both.

mod epoll;
mod incoming;
mod outgoing;
mod spares;
mod table;
mod unpark;
mod uring;
mod waiter;

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;

use crate::{DriverOptions, IoChoice, IoError, queued_count};
use epoll::Epoll;
use uring::Uring;

pub use outgoing::More;
pub use table::{ListenerKey, SourceKey, StreamKey};
pub use unpark::Unparker;

/// All input and output of one core. It stays on the thread that made it.
pub struct Driver {
    kind: Kind,
    description: String,
    /// io_uring accepts submissions from the thread that made the ring only.
    not_send: PhantomData<*const ()>,
}

enum Kind {
    Uring(Box<Uring>),
    Epoll(Box<Epoll>),
}

/// Hands a call on to the implementation.
macro_rules! each {
    ($driver:expr, $inner:ident => $call:expr) => {
        match &mut $driver.kind {
            Kind::Uring($inner) => $call,
            Kind::Epoll($inner) => $call,
        }
    };
}

impl Driver {
    /// Makes a driver for the calling thread. With [`IoChoice::Auto`], io_uring is tried with a self-test of every
    /// operation the driver needs (once per process), and epoll is the fallback.
    ///
    /// # Errors
    /// io_uring was insisted on and does not work here, or not even epoll could be set up.
    pub fn new(options: &DriverOptions) -> Result<Self, IoError> {
        let refusal = match options.choice {
            IoChoice::Epoll => None,
            choice => match Uring::tested(options) {
                Ok(uring) => {
                    let description = uring.description();
                    return Ok(Self::from_kind(Kind::Uring(Box::new(uring)), description));
                }
                Err(error) if choice == IoChoice::Uring => return Err(error),
                Err(error) => Some(error),
            },
        };
        let description = match refusal {
            Some(IoError::Uring { step, source }) => format!("epoll (io_uring: {step}: {source})"),
            _ => "epoll".to_owned(),
        };
        Ok(Self::from_kind(Kind::Epoll(Box::new(Epoll::new(options)?)), description))
    }

    fn from_kind(kind: Kind, description: String) -> Self {
        Self { kind, description, not_send: PhantomData }
    }

    /// Which implementation this is, and why; one line for people.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The bell of this driver, for other threads.
    pub fn unparker(&self) -> Unparker {
        match &self.kind {
            Kind::Uring(uring) => uring.unparker(),
            Kind::Epoll(epoll) => epoll.unparker(),
        }
    }

    /// Submits what is queued, waits, and dispatches everything that has completed: states are updated and the tasks
    /// concerned are woken. Gives the number of completions, sends that were waited for counting as one.
    ///
    /// `timeout`: `None` waits until something happens, zero does not wait at all. It returns at once when a task
    /// waits for a send that this turn has submitted. Zero completions mean that nobody was woken.
    ///
    /// # Errors
    /// The kernel refused to wait; nothing is lost, and the call can be repeated.
    pub fn turn(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        each!(self, inner => inner.turn(timeout))
    }

    /// Has waits ask the network card for packets, for at most `up_to`, before they sleep until it interrupts; zero ends
    /// that. Costs cpu time while it lasts, and spares each wait the interrupt and the wake-up.
    ///
    /// # Errors
    /// The kernel cannot: it takes Linux 6.9.
    pub fn busy_poll(&mut self, up_to: Duration) -> io::Result<()> {
        each!(self, inner => inner.busy_poll(up_to))
    }

    /// Whether operations are queued that leave with the next [`turn`](Self::turn).
    pub fn has_unsubmitted(&self) -> bool {
        match &self.kind {
            Kind::Uring(uring) => uring.has_unsubmitted(),
            Kind::Epoll(_) => false,
        }
    }

    /// Streams held, including closed ones whose last completion has not come in.
    pub fn stream_count(&self) -> usize {
        match &self.kind {
            Kind::Uring(uring) => uring.stream_count(),
            Kind::Epoll(epoll) => epoll.stream_count(),
        }
    }

    /// Takes over a socket that is bound, listening and non-blocking.
    ///
    /// # Errors
    /// The kernel cannot watch it.
    pub fn add_listener(&mut self, fd: OwnedFd) -> io::Result<ListenerKey> {
        each!(self, inner => inner.add_listener(fd))
    }

    /// The next connection: non-blocking, closed on exec. One task at a time per listener.
    ///
    /// # Errors
    /// Running out of descriptors or memory is reported each time it happens: wait a little and poll again.
    /// Connections that failed before they were taken are skipped. A closed listener first hands over what the
    /// kernel had queued, then answers `NotConnected`.
    pub fn poll_accept(&mut self, cx: &mut Context<'_>, key: ListenerKey) -> Poll<io::Result<OwnedFd>> {
        each!(self, inner => inner.poll_accept(cx, key))
    }

    /// Connections of a listener that wait to be taken: accepted by the driver, or queued by the kernel. None of one that
    /// is closed.
    pub fn waiting_count(&self, key: ListenerKey) -> usize {
        let queued = self.listener_fd(key).and_then(|fd| queued_count(fd).ok()).unwrap_or(0);
        let accepted = match &self.kind {
            Kind::Uring(uring) => uring.accepted_count(key),
            Kind::Epoll(epoll) => epoll.accepted_count(key),
        };
        queued as usize + accepted
    }

    /// Stops listening. Connections the kernel still holds for it are accepted and can be taken with
    /// [`poll_accept`](Self::poll_accept) until that answers `NotConnected`; then the key is stale.
    pub fn close_listener(&mut self, key: ListenerKey) {
        each!(self, inner => inner.close_listener(key));
    }

    /// Takes over a connected, non-blocking socket, as a rule one that was accepted: the kernel is asked to watch it when it is first
    /// waited for.
    ///
    /// # Errors
    /// None so far.
    pub fn add_stream(&mut self, fd: OwnedFd) -> io::Result<StreamKey> {
        each!(self, inner => inner.add_stream(fd))
    }

    /// As [`add_stream`](Self::add_stream), for a socket on which something has come already, as a rule: what has is received by the
    /// first [`poll_recv`](Self::poll_recv), not by one after the next turn.
    ///
    /// # Errors
    /// None so far.
    pub fn resume_stream(&mut self, fd: OwnedFd) -> io::Result<StreamKey> {
        match &mut self.kind {
            Kind::Uring(uring) => uring.resume_stream(fd),
            // It looks before it waits in any case.
            Kind::Epoll(epoll) => epoll.add_stream(fd),
        }
    }

    /// As [`add_stream`](Self::add_stream), for a connection that this side has made, and may keep: nothing is received before something
    /// was sent, and it is watched from the beginning, so that its end is known at the next turn.
    ///
    /// # Errors
    /// The kernel cannot watch it.
    pub fn add_connected(&mut self, fd: OwnedFd) -> io::Result<StreamKey> {
        each!(self, inner => inner.add_connected(fd))
    }

    /// Takes over a socket whose connection is under way ([`Connecting::UnderWay`](crate::Connecting::UnderWay)). It may be
    /// used once [`poll_connected`](Self::poll_connected) was ready.
    ///
    /// # Errors
    /// The kernel cannot watch it.
    pub fn add_connecting(&mut self, fd: OwnedFd) -> io::Result<StreamKey> {
        each!(self, inner => inner.add_connecting(fd))
    }

    /// Ready when the connection of a stream stands; to be called until it was ready once.
    ///
    /// # Errors
    /// Why there is no connection: `ConnectionRefused`, `TimedOut`, …; `NotConnected` for a stale key.
    pub fn poll_connected(&mut self, cx: &mut Context<'_>, key: StreamKey) -> Poll<io::Result<()>> {
        each!(self, inner => inner.poll_connected(cx, key))
    }

    /// Appends what has arrived, at most [`DriverOptions::recv_buffer_bytes`] per call, or as much as `buf` has room for if
    /// that is more; `Ok(0)` is the end of the stream. One task at a time per stream.
    ///
    /// # Errors
    /// What receiving from the socket gives; that the kernel cannot watch it; `NotConnected` for a stale key.
    #[inline]
    pub fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        key: StreamKey,
        buf: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        each!(self, inner => inner.poll_recv(cx, key, buf))
    }

    /// Sends `head`, then `body`. Errors are told by [`poll_sent`](Self::poll_sent), which must have answered before
    /// the next send or file of this stream. With a stale key nothing happens.
    ///
    /// # Panics
    /// When a send of this stream is still under way.
    #[inline]
    pub fn start_send(&mut self, key: StreamKey, head: Vec<u8>, body: Bytes, more: More) {
        each!(self, inner => inner.start_send(key, head, body, more));
    }

    /// Ready when the kernel has taken every byte of the send under way; gives an empty buffer for the next head, with
    /// memory from an earlier one if the driver has any to spare. Without a send under way it is ready with an empty buffer.
    ///
    /// # Errors
    /// What sending on the socket gives; `NotConnected` for a stale key.
    #[inline]
    pub fn poll_sent(&mut self, cx: &mut Context<'_>, key: StreamKey) -> Poll<io::Result<Vec<u8>>> {
        each!(self, inner => inner.poll_sent(cx, key))
    }

    /// Sends up to `count` bytes of `file` from `offset`, which moves on, by `sendfile(2)`. Fewer may be sent;
    /// `Ok(0)` says that the file has no more bytes there. May wait for the disk if the pages are not in memory.
    ///
    /// # Errors
    /// What sending on the socket or reading the file gives; `NotConnected` for a stale key.
    ///
    /// # Panics
    /// When a send of this stream is still under way.
    pub fn poll_sendfile(
        &mut self,
        cx: &mut Context<'_>,
        key: StreamKey,
        file: BorrowedFd<'_>,
        offset: &mut u64,
        count: usize,
    ) -> Poll<io::Result<usize>> {
        each!(self, inner => inner.poll_sendfile(cx, key, file, offset, count))
    }

    /// Tells the peer that nothing more will be sent.
    ///
    /// # Errors
    /// What `shutdown(2)` gives; `NotConnected` for a stale key.
    ///
    /// # Panics
    /// When a send of this stream is still under way.
    pub fn shutdown_write(&mut self, key: StreamKey) -> io::Result<()> {
        each!(self, inner => inner.shutdown_write(key))
    }

    /// Closes a stream. What is under way is canceled; of a send, what the kernel has not taken is dropped. The
    /// descriptor is closed with the next turn at the latest. A stale key is ignored.
    pub fn close_stream(&mut self, key: StreamKey) {
        each!(self, inner => inner.close_stream(key));
    }

    /// Takes an idle stream out of the driver: `Some` is its socket, whole, and the key is stale from then on. `None` says
    /// that it is not idle, since something has arrived or is under way; it stays, and is used as before. So it does when
    /// whoever asked does not wait for the answer: what arrives meanwhile is told by [`poll_recv`](Self::poll_recv).
    /// One task at a time per stream, receiving included.
    ///
    /// # Errors
    /// `NotConnected` for a stale key.
    pub fn poll_release(
        &mut self,
        cx: &mut Context<'_>,
        key: StreamKey,
    ) -> Poll<io::Result<Option<OwnedFd>>> {
        each!(self, inner => inner.poll_release(cx, key))
    }

    /// The socket of a listener; nothing once it is closed.
    pub fn listener_fd(&self, key: ListenerKey) -> Option<BorrowedFd<'_>> {
        match &self.kind {
            Kind::Uring(uring) => uring.listener_fd(key),
            Kind::Epoll(epoll) => epoll.listener_fd(key),
        }
    }

    /// The socket of a stream.
    ///
    /// # Panics
    /// With a stale key.
    pub fn stream_fd(&self, key: StreamKey) -> BorrowedFd<'_> {
        let fd = match &self.kind {
            Kind::Uring(uring) => uring.stream_fd(key),
            Kind::Epoll(epoll) => epoll.stream_fd(key),
        };
        fd.expect("the stream of this key is closed")
    }

    /// Watches any other descriptor that can be polled (inotify, pipe, eventfd) for input.
    ///
    /// # Errors
    /// `PermissionDenied` for files and folders, which cannot be polled.
    pub fn add_source(&mut self, fd: OwnedFd) -> io::Result<SourceKey> {
        each!(self, inner => inner.add_source(fd))
    }

    /// Watches a listener that is another driver's: ready when connections wait there that its owner was not there to
    /// take. With epoll the kernel tells one waiter only, the owner first, if its driver was the first to watch. With
    /// io_uring it tells the owner and all who watch; so let few do. Otherwise as [`add_source`](Self::add_source).
    ///
    /// # Errors
    /// The kernel cannot watch it.
    pub fn add_watch(&mut self, listener: OwnedFd) -> io::Result<SourceKey> {
        match &mut self.kind {
            Kind::Uring(uring) => uring.add_source(listener),
            Kind::Epoll(epoll) => epoll.add_watch(listener),
        }
    }

    /// Whether a listener's watchers are told of each connection, also of those its owner takes.
    pub fn tells_every_watcher(&self) -> bool {
        matches!(self.kind, Kind::Uring(_))
    }

    /// Ready each time there is something to read, or the end, or an error to be read. One task at a time per source.
    ///
    /// # Errors
    /// `NotConnected` for a stale key.
    pub fn poll_readable(&mut self, cx: &mut Context<'_>, key: SourceKey) -> Poll<io::Result<()>> {
        each!(self, inner => inner.poll_readable(cx, key))
    }

    /// The descriptor of a source.
    ///
    /// # Panics
    /// With a stale key.
    pub fn source_fd(&self, key: SourceKey) -> BorrowedFd<'_> {
        let fd = match &self.kind {
            Kind::Uring(uring) => uring.source_fd(key),
            Kind::Epoll(epoll) => epoll.source_fd(key),
        };
        fd.expect("the source of this key is closed")
    }

    /// Stops watching a source and closes its descriptor. A stale key is ignored.
    pub fn close_source(&mut self, key: SourceKey) {
        each!(self, inner => inner.close_source(key));
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("description", &self.description).finish_non_exhaustive()
    }
}
