//! The driver of a core: one interface, two implementations.
//!
//! Contains the choice between io_uring and epoll and the text that explains the choice; a
//! predictable branch forwards every call. The contract of each call is documented here and holds
//! for both; `tests/suite` runs every case on both.

mod detached;
mod epoll;
mod free_list;
mod incoming;
mod outgoing;
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

pub use detached::{Detached, DriverKey, ObjectKey};
pub use outgoing::{More, reset_when_closed};
pub use table::{ListenerKey, SourceKey, StreamKey};
pub use unpark::Unparker;

/// All input and output of a core. The driver stays on the thread that made it.
pub struct Driver {
    kind: DriverKind,
    description: String,
    /// io_uring accepts submissions only from the thread that made the ring.
    not_send: PhantomData<*const ()>,
}

enum DriverKind {
    Uring(Box<Uring>),
    Epoll(Box<Epoll>),
}

/// Forwards a call to the implementation.
macro_rules! each {
    ($driver:expr, $inner:ident => $call:expr) => {
        match &mut $driver.kind {
            DriverKind::Uring($inner) => $call,
            DriverKind::Epoll($inner) => $call,
        }
    };
}

impl Driver {
    /// Makes a driver for the calling thread. [`IoChoice::Auto`] tries io_uring with a self-test of
    /// every operation that the driver needs (once per process), and falls back to epoll.
    ///
    /// # Errors
    /// io_uring was required and does not work here, or not even epoll could be set up.
    pub fn new(options: &DriverOptions) -> Result<Self, IoError> {
        let refusal = match options.choice {
            IoChoice::Epoll => None,
            choice => match Uring::tested(options) {
                Ok(uring) => {
                    let description = uring.description();
                    return Ok(Self::from_kind(DriverKind::Uring(Box::new(uring)), description));
                }
                Err(error) if choice == IoChoice::Uring => return Err(error),
                Err(error) => Some(error),
            },
        };
        let description = match refusal {
            Some(IoError::Uring { step, source }) => format!("epoll (io_uring: {step}: {source})"),
            _ => "epoll".to_owned(),
        };
        Ok(Self::from_kind(DriverKind::Epoll(Box::new(Epoll::new(options)?)), description))
    }

    fn from_kind(kind: DriverKind, description: String) -> Self {
        Self { kind, description, not_send: PhantomData }
    }

    /// The implementation and the reason for the choice; one line for people.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The waker of this driver, for other threads.
    pub fn unparker(&self) -> Unparker {
        match &self.kind {
            DriverKind::Uring(uring) => uring.unparker(),
            DriverKind::Epoll(epoll) => epoll.unparker(),
        }
    }

    /// Submits all queued operations, waits, and dispatches all completions: updates states and
    /// wakes the tasks concerned. Returns the number of completions; all awaited sends together
    /// count as one.
    ///
    /// `timeout`: `None` waits until something happens, zero does not wait at all. Returns at once
    /// when a task waits for a send that this turn has submitted. Zero completions mean that no
    /// task was woken.
    ///
    /// # Errors
    /// The kernel refused to wait; nothing is lost, and the call can be repeated.
    pub fn turn(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        each!(self, inner => inner.turn(timeout))
    }

    /// Makes waits poll the network card for packets, for at most `up_to`, before they sleep until
    /// an interrupt; zero ends polling. Polling costs cpu time, and saves each wait the interrupt
    /// and the wake-up.
    ///
    /// # Errors
    /// The kernel is older than Linux 6.9.
    pub fn busy_poll(&mut self, up_to: Duration) -> io::Result<()> {
        each!(self, inner => inner.busy_poll(up_to))
    }

    /// Whether queued operations wait for the next [`turn`](Self::turn).
    pub fn has_unsubmitted(&self) -> bool {
        match &self.kind {
            DriverKind::Uring(uring) => uring.has_unsubmitted(),
            DriverKind::Epoll(_) => false,
        }
    }

    /// The number of streams, including closed streams whose last completion has not arrived.
    pub fn stream_count(&self) -> usize {
        match &self.kind {
            DriverKind::Uring(uring) => uring.stream_count(),
            DriverKind::Epoll(epoll) => epoll.stream_count(),
        }
    }

    /// Takes over a socket that is bound and listening, and makes the socket non-blocking.
    ///
    /// # Errors
    /// The kernel cannot watch the socket.
    pub fn add_listener(&mut self, fd: OwnedFd) -> io::Result<ListenerKey> {
        // An accept on a socket that blocks would stop the core.
        rustix::io::ioctl_fionbio(&fd, true)?;
        each!(self, inner => inner.add_listener(fd))
    }

    /// The next connection: non-blocking, closed on exec. One task at a time per listener.
    ///
    /// # Errors
    /// Lack of descriptors or memory is reported each time: wait a little and poll again.
    /// Connections that failed in the queue are skipped. A closed listener first returns the
    /// connections that the kernel had queued, then answers `NotConnected`.
    pub fn poll_accept(&mut self, cx: &mut Context<'_>, key: ListenerKey) -> Poll<io::Result<OwnedFd>> {
        each!(self, inner => inner.poll_accept(cx, key))
    }

    /// The number of waiting connections of a listener: accepted by the driver, or queued by the
    /// kernel. Zero for a closed listener.
    pub fn waiting_count(&self, key: ListenerKey) -> usize {
        let queued = self.listener_fd(key).and_then(|fd| queued_count(fd).ok()).unwrap_or(0);
        let accepted = match &self.kind {
            DriverKind::Uring(uring) => uring.accepted_count(key),
            DriverKind::Epoll(epoll) => epoll.accepted_count(key),
        };
        queued as usize + accepted
    }

    /// Stops listening. Connections that the kernel still holds are accepted and can be taken with
    /// [`poll_accept`](Self::poll_accept) until that answers `NotConnected`; then the key is stale.
    pub fn close_listener(&mut self, key: ListenerKey) {
        each!(self, inner => inner.close_listener(key));
    }

    /// Closes a listener that nothing takes connections from any more. What the kernel still holds
    /// for it is reset, and the key is stale from then on. A stale key is ignored.
    pub fn discard_listener(&mut self, key: ListenerKey) {
        each!(self, inner => inner.discard_listener(key));
    }

    /// Takes over a connected, non-blocking socket, usually an accepted socket. The kernel starts
    /// to watch the socket at the first wait.
    ///
    /// # Errors
    /// None so far.
    pub fn add_stream(&mut self, fd: OwnedFd) -> io::Result<StreamKey> {
        each!(self, inner => inner.add_stream(fd))
    }

    /// As [`add_stream`](Self::add_stream), for a socket on which bytes have usually arrived
    /// already. The first [`poll_recv`](Self::poll_recv) receives these bytes, without a turn in
    /// between.
    ///
    /// # Errors
    /// None so far.
    pub fn resume_stream(&mut self, fd: OwnedFd) -> io::Result<StreamKey> {
        match &mut self.kind {
            DriverKind::Uring(uring) => uring.resume_stream(fd),
            // epoll receives before it waits in any case.
            DriverKind::Epoll(epoll) => epoll.add_stream(fd),
        }
    }

    /// As [`add_stream`](Self::add_stream), for a connection that this side has made, and may keep.
    /// Nothing is received before the first send, and the kernel watches the socket from the
    /// beginning, so that the end of the connection is known at the next turn.
    ///
    /// # Errors
    /// The kernel cannot watch the socket.
    pub fn add_connected(&mut self, fd: OwnedFd) -> io::Result<StreamKey> {
        each!(self, inner => inner.add_connected(fd))
    }

    /// Takes over a socket that is connecting
    /// ([`Connecting::UnderWay`](crate::Connecting::UnderWay)). The stream may be used once
    /// [`poll_connected`](Self::poll_connected) was ready.
    ///
    /// # Errors
    /// The kernel cannot watch the socket.
    pub fn add_connecting(&mut self, fd: OwnedFd) -> io::Result<StreamKey> {
        each!(self, inner => inner.add_connecting(fd))
    }

    /// Ready when the connection of a stream is established; call until ready once.
    ///
    /// # Errors
    /// The reason of the failure: `ConnectionRefused`, `TimedOut`, …; `NotConnected` for a stale
    /// key.
    pub fn poll_connected(&mut self, cx: &mut Context<'_>, key: StreamKey) -> Poll<io::Result<()>> {
        each!(self, inner => inner.poll_connected(cx, key))
    }

    /// Appends the received bytes, at most [`DriverOptions::recv_buffer_bytes`] per call, or the
    /// free capacity of `buf` if that is more; `Ok(0)` is the end of the stream. One task at a time
    /// per stream.
    ///
    /// # Errors
    /// Errors of receiving; a failure to watch the socket; `NotConnected` for a stale key.
    #[inline]
    pub fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        key: StreamKey,
        buf: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        each!(self, inner => inner.poll_recv(cx, key, buf))
    }

    /// Appends received bytes as [`poll_recv`](Self::poll_recv) does, without a wait. `None` means
    /// that nothing had arrived at the last [`turn`](Self::turn). A task that waits in `poll_recv`
    /// keeps waiting. May execute a turn without a wait, after which the caller looks at
    /// [`take_detached`](Self::take_detached).
    ///
    /// # Errors
    /// As `poll_recv`; errors of a turn; `WouldBlock` if the stream leaves the driver during that
    /// turn.
    pub fn try_recv(&mut self, key: StreamKey, buf: &mut Vec<u8>) -> io::Result<Option<usize>> {
        each!(self, inner => inner.try_recv(key, buf))
    }

    /// Sends `head`, then `body`. [`poll_sent`](Self::poll_sent) reports errors, and must have
    /// answered before the next send or file of this stream. No effect with a stale key.
    ///
    /// # Errors
    /// `ResourceBusy` when a send of this stream is still under way: `head` and `body` are dropped.
    #[inline]
    pub fn start_send(&mut self, key: StreamKey, head: Vec<u8>, body: Bytes, more: More) -> io::Result<()> {
        each!(self, inner => inner.start_send(key, head, body, more))
    }

    /// Ready when the kernel has taken every byte of the send under way. Returns an empty buffer
    /// for the next head, with memory of an earlier head if available. Without a send under way,
    /// ready with an empty buffer.
    ///
    /// # Errors
    /// Errors of sending; `NotConnected` for a stale key.
    #[inline]
    pub fn poll_sent(&mut self, cx: &mut Context<'_>, key: StreamKey) -> Poll<io::Result<Vec<u8>>> {
        each!(self, inner => inner.poll_sent(cx, key))
    }

    /// Sends up to `count` bytes of `file` from `offset`, which advances, by `sendfile(2)`. Fewer
    /// bytes may be sent; `Ok(0)` means that the file has no more bytes there. May wait for the
    /// disk if the pages are not in memory.
    ///
    /// # Errors
    /// Errors of sending or of reading the file; `NotConnected` for a stale key; `ResourceBusy`
    /// when a send of this stream is still under way.
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

    /// Tells the peer that no more bytes will be sent.
    ///
    /// # Errors
    /// As `shutdown(2)`; `NotConnected` for a stale key; `ResourceBusy` when a send of this stream
    /// is still under way.
    pub fn shutdown_write(&mut self, key: StreamKey) -> io::Result<()> {
        each!(self, inner => inner.shutdown_write(key))
    }

    /// Closes a stream. Operations under way are canceled. When the kernel has not taken every byte
    /// of a send, or a send has failed, the connection is reset, because a clean end would tell the
    /// peer that all has come (a UNIX socket cannot be reset). The descriptor is closed within two
    /// turns. A stale key is ignored.
    pub fn close_stream(&mut self, key: StreamKey) {
        each!(self, inner => inner.close_stream(key));
    }

    /// Takes an idle stream out of the driver. `Some` is the intact socket, and the key is stale
    /// from then on. `None` means that the stream is not idle, because bytes have arrived or an
    /// operation is under way; the stream stays and is used as before. The stream also stays if the
    /// caller stops waiting: [`poll_recv`](Self::poll_recv) then returns bytes that arrive
    /// meanwhile. One task at a time per stream, receiving included.
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

    /// Begins to take an object out of the driver, for the driver of another core. Operations under
    /// way end first, so the object may leave during a later turn:
    /// [`take_detached`](Self::take_detached) tells. Until then the object can be used. Afterwards
    /// the key is stale. Returns false for a stale key.
    pub fn detach(&mut self, key: ObjectKey) -> bool {
        each!(self, inner => inner.detach(key))
    }

    /// An object that has left the driver, and its former key.
    pub fn take_detached(&mut self) -> Option<(ObjectKey, Detached)> {
        each!(self, inner => inner.take_detached())
    }

    /// Takes over an object from another driver. Bytes that the other driver has received come
    /// first, the rest of a send goes on, and the tasks that wait for the object keep waiting.
    ///
    /// # Errors
    /// The kernel cannot watch the object, which is then closed. The waiting tasks are woken.
    pub fn attach(&mut self, object: Detached) -> io::Result<ObjectKey> {
        each!(self, inner => inner.attach(object.0))
    }

    /// The socket of a listener; none once closed.
    pub fn listener_fd(&self, key: ListenerKey) -> Option<BorrowedFd<'_>> {
        match &self.kind {
            DriverKind::Uring(uring) => uring.listener_fd(key),
            DriverKind::Epoll(epoll) => epoll.listener_fd(key),
        }
    }

    /// The socket of a stream.
    ///
    /// # Panics
    /// With a stale key.
    pub fn stream_fd(&self, key: StreamKey) -> BorrowedFd<'_> {
        let fd = match &self.kind {
            DriverKind::Uring(uring) => uring.stream_fd(key),
            DriverKind::Epoll(epoll) => epoll.stream_fd(key),
        };
        fd.expect("the stream of this key is closed")
    }

    /// Watches any other descriptor that can be polled (inotify, pipe, eventfd), for input and
    /// room.
    ///
    /// # Errors
    /// `PermissionDenied` for files and folders, because these cannot be polled.
    pub fn add_source(&mut self, fd: OwnedFd) -> io::Result<SourceKey> {
        each!(self, inner => inner.add_source(fd))
    }

    /// Watches another driver's listener: ready when connections wait there and the owner was not
    /// there to accept. With epoll the kernel tells only one waiter, the owner first, if the
    /// owner's driver was the first to watch. With io_uring the kernel tells the owner and all
    /// watchers, so use few watchers. Otherwise as [`add_source`](Self::add_source).
    ///
    /// # Errors
    /// The kernel cannot watch the listener.
    pub fn add_watch(&mut self, listener: OwnedFd) -> io::Result<SourceKey> {
        match &mut self.kind {
            DriverKind::Uring(uring) => uring.add_source(listener),
            DriverKind::Epoll(epoll) => epoll.add_watch(listener),
        }
    }

    /// Whether a listener's watchers are told of each connection, including connections that the
    /// owner accepts.
    pub fn tells_every_watcher(&self) -> bool {
        matches!(self.kind, DriverKind::Uring(_))
    }

    /// Ready whenever there is input, the end, or an error to be read. One task at a time per
    /// source.
    ///
    /// # Errors
    /// `NotConnected` for a stale key.
    pub fn poll_readable(&mut self, cx: &mut Context<'_>, key: SourceKey) -> Poll<io::Result<()>> {
        each!(self, inner => inner.poll_readable(cx, key))
    }

    /// Ready whenever there is room, or an error to be learned by a write. One task at a time per
    /// source and direction.
    ///
    /// # Errors
    /// `NotConnected` for a stale key.
    pub fn poll_writable(&mut self, cx: &mut Context<'_>, key: SourceKey) -> Poll<io::Result<()>> {
        each!(self, inner => inner.poll_writable(cx, key))
    }

    /// The descriptor of a source.
    ///
    /// # Panics
    /// With a stale key.
    pub fn source_fd(&self, key: SourceKey) -> BorrowedFd<'_> {
        let fd = match &self.kind {
            DriverKind::Uring(uring) => uring.source_fd(key),
            DriverKind::Epoll(epoll) => epoll.source_fd(key),
        };
        fd.expect("the source of this key is closed")
    }

    /// Stops watching a source and closes the descriptor, before the next turn. A stale key is
    /// ignored.
    pub fn close_source(&mut self, key: SourceKey) {
        each!(self, inner => inner.close_source(key));
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("description", &self.description).finish_non_exhaustive()
    }
}
