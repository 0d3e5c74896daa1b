//! A socket of the epoll driver.
//!
//! Contains the flags that say which operation may succeed, and the send under way. A flag is
//! cleared only by an answer that guarantees a later edge: "would block", or fewer bytes than
//! requested while no hang-up and no urgent data is known. Registering a socket also gives an edge
//! if an event is pending. Tested in `tests/suite`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll};

use bytes::Bytes;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::More;
use crate::connect::connect_result;
use crate::driver::detached::{DetachedSend, DetachedStream, Received};
use crate::driver::free_list::Spares;
use crate::driver::incoming::Inbox;
use crate::driver::outgoing::{Outgoing, reset_when_closed, sendfile_now};
use crate::driver::waiter::Waiter;
use crate::error::under_way;

enum EpollSending {
    Idle,
    /// Waits for room in the socket's buffer.
    Blocked(Box<Outgoing>),
    Done,
    Failed(io::Error),
}

/// The events that the kernel reports.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchedEvents {
    /// None, because no task has waited yet. A connection with a single request that arrived with
    /// the connection never waits.
    Nothing,
    /// Input.
    Input,
    /// Input and room.
    InputAndRoom,
}

pub(super) struct EpollStream {
    fd: OwnedFd,
    /// Receiving may succeed. True at first, because a request usually arrives with the connection.
    readable: bool,
    /// Sending may succeed.
    writable: bool,
    watched: WatchedEvents,
    /// A short receive does not mean that no byte is left. The peer has finished or the connection
    /// is broken, but the end was not read yet, or urgent data divides the bytes.
    reads_to_end: bool,
    /// What another driver has received; read before the socket.
    carried: Option<Box<Received>>,
    sending: EpollSending,
    reader: Waiter,
    writer: Waiter,
}

impl EpollStream {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self {
            fd,
            readable: true,
            writable: true,
            watched: WatchedEvents::Nothing,
            reads_to_end: false,
            carried: None,
            sending: EpollSending::Idle,
            reader: Waiter::default(),
            writer: Waiter::default(),
        }
    }

    /// A socket that is still connecting: the edge of its connection, and every later edge, is yet
    /// to come.
    pub(super) fn connecting(fd: OwnedFd) -> Self {
        Self { readable: false, writable: false, ..Self::new(fd) }
    }

    pub(super) fn poll_connected(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.writable {
            return Poll::Ready(connect_result(self.fd.as_fd()));
        }
        self.writer.wait(cx);
        Poll::Pending
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// The stream, after it has left the driver.
    pub(super) fn into_detached(self) -> DetachedStream {
        let sending = match self.sending {
            EpollSending::Idle => DetachedSend::Idle,
            EpollSending::Blocked(outgoing) => DetachedSend::Unsent(outgoing),
            EpollSending::Done => DetachedSend::Done,
            EpollSending::Failed(error) => DetachedSend::Failed(error),
        };
        DetachedStream {
            fd: Some(self.fd),
            received: self.carried.map_or_else(Received::default, |carried| *carried),
            sending,
            awaits_room: !self.writable,
            reader: self.reader.into(),
            writer: self.writer.into(),
        }
    }

    /// A stream from another driver, and the events that its waiting tasks need.
    pub(super) fn attached(mut stream: DetachedStream) -> (Self, WatchedEvents) {
        let sending = match std::mem::take(&mut stream.sending) {
            DetachedSend::Idle => EpollSending::Idle,
            DetachedSend::Unsent(outgoing) => EpollSending::Blocked(outgoing),
            DetachedSend::Done => EpollSending::Done,
            DetachedSend::Failed(error) => EpollSending::Failed(error),
        };
        // The registration gives an edge if there is room already.
        let awaits_room = stream.awaits_room || matches!(sending, EpollSending::Blocked(_));
        let mut attached = Self {
            writable: !awaits_room,
            carried: std::mem::take(&mut stream.received).carry(),
            sending,
            reader: stream.reader.unpack(),
            writer: stream.writer.unpack(),
            ..Self::new(stream.fd.take().expect("a stream without a driver has its descriptor"))
        };
        let watched = match (awaits_room, attached.reader.is_waiting()) {
            (true, _) => WatchedEvents::InputAndRoom,
            (false, true) => WatchedEvents::Input,
            (false, false) => WatchedEvents::Nothing,
        };
        if attached.carried.is_some() {
            attached.reader.wake();
        }
        (attached, watched)
    }

    /// Whether no byte has arrived, as far as is known, and no send is under way.
    pub(super) fn is_idle(&self) -> bool {
        !self.readable && self.writable && matches!(self.sending, EpollSending::Idle | EpollSending::Done)
    }

    #[inline]
    pub(super) fn watched(&self) -> WatchedEvents {
        self.watched
    }

    pub(super) fn set_watched(&mut self, watched: WatchedEvents) {
        self.watched = watched;
    }

    /// Whether a send waits for room that the kernel does not report.
    #[inline]
    pub(super) fn misses_room(&self) -> bool {
        !self.writable && self.watched != WatchedEvents::InputAndRoom
    }

    /// The kernel cannot report room, so the sender gets the error instead of waiting for ever.
    pub(super) fn fail_send(&mut self, error: io::Error) {
        reset_when_closed(self.fd.as_fd());
        self.sending = EpollSending::Failed(error);
    }

    pub(super) fn on_event(&mut self, events: EventFlags, free_list: &mut Spares) {
        let broken = EventFlags::HUP | EventFlags::ERR;
        if events.intersects(EventFlags::RDHUP | EventFlags::PRI | broken) {
            self.reads_to_end = true;
        }
        if events.intersects(EventFlags::IN | EventFlags::RDHUP | broken) {
            self.readable = true;
            self.reader.wake();
        }
        if events.intersects(EventFlags::OUT | broken) {
            self.writable = true;
            if let EpollSending::Blocked(_) = self.sending {
                self.carry_on(free_list);
            } else {
                self.writer.wake();
            }
        }
    }

    #[inline]
    pub(super) fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<usize>> {
        if self.readable
            && let Some(answer) = self.receive_now(buf, inbox)
        {
            return Poll::Ready(answer);
        }
        self.reader.wait(cx);
        Poll::Pending
    }

    /// Receives bytes that have arrived. Does not touch the waiting task.
    pub(super) fn try_recv(&mut self, buf: &mut Vec<u8>, inbox: &mut Inbox) -> io::Result<Option<usize>> {
        // The kernel reports no bytes of a stream that it does not watch.
        if self.readable || self.watched == WatchedEvents::Nothing {
            self.readable = true;
            return self.receive_now(buf, inbox).transpose();
        }
        Ok(None)
    }

    /// Receives by a system call, after the bytes of another driver; `None` if there are no bytes.
    #[inline]
    fn receive_now(&mut self, buf: &mut Vec<u8>, inbox: &mut Inbox) -> Option<io::Result<usize>> {
        if let Some(carried) = &mut self.carried {
            let count = carried.read(buf, inbox.bytes().max(buf.capacity() - buf.len()));
            if carried.is_read() {
                self.carried = None;
            }
            return Some(count);
        }
        match inbox.receive(self.fd.as_fd(), buf) {
            Ok(received) => {
                if !received.is_full() && !self.reads_to_end {
                    self.readable = received.count == 0;
                }
                Some(Ok(received.count))
            }
            Err(Errno::AGAIN) => {
                self.readable = false;
                None
            }
            Err(error) => Some(Err(error.into())),
        }
    }

    #[inline]
    pub(super) fn start_send(
        &mut self,
        head: Vec<u8>,
        body: Bytes,
        more: More,
        free_list: &mut Spares,
    ) -> io::Result<()> {
        self.check_idle()?;
        let outgoing = Outgoing::new(head, body, more);
        if self.writable {
            self.send(outgoing, free_list);
        } else {
            self.sending = EpollSending::Blocked(Box::new(outgoing));
        }
        Ok(())
    }

    #[inline]
    fn check_idle(&self) -> io::Result<()> {
        if matches!(self.sending, EpollSending::Idle) { Ok(()) } else { Err(under_way()) }
    }

    /// To be called before the descriptor is closed: a peer that has not got all of a send is told
    /// so.
    pub(super) fn before_close(&mut self) {
        if let EpollSending::Blocked(_) = self.sending {
            reset_when_closed(self.fd.as_fd());
        }
    }

    pub(super) fn close(mut self) {
        self.before_close();
    }

    /// Closes a stream that the kernel does not watch. The waiting tasks learn of the end.
    pub(super) fn close_unwatched(mut self) {
        self.reader.wake();
        self.writer.wake();
        self.close();
    }

    #[inline]
    fn send(&mut self, mut outgoing: Outgoing, free_list: &mut Spares) {
        self.sending = match outgoing.send_now(self.fd.as_fd()) {
            Ok(true) => {
                free_list.put(outgoing.into_head());
                EpollSending::Done
            }
            Ok(false) => {
                self.writable = false;
                EpollSending::Blocked(Box::new(outgoing))
            }
            Err(error) => {
                // The close of the socket is a reset from now on, also by a later owner.
                reset_when_closed(self.fd.as_fd());
                EpollSending::Failed(error)
            }
        };
    }

    /// A blocked send has room again.
    fn carry_on(&mut self, free_list: &mut Spares) {
        let EpollSending::Blocked(outgoing) = std::mem::replace(&mut self.sending, EpollSending::Idle) else {
            return;
        };
        self.send(*outgoing, free_list);
        if !matches!(self.sending, EpollSending::Blocked(_)) {
            self.writer.wake();
        }
    }

    #[inline]
    pub(super) fn poll_sent(
        &mut self,
        cx: &mut Context<'_>,
        free_list: &mut Spares,
    ) -> Poll<io::Result<Vec<u8>>> {
        match std::mem::replace(&mut self.sending, EpollSending::Idle) {
            EpollSending::Idle | EpollSending::Done => Poll::Ready(Ok(free_list.take())),
            EpollSending::Failed(error) => Poll::Ready(Err(error)),
            blocked @ EpollSending::Blocked(_) => {
                self.sending = blocked;
                self.writer.wait(cx);
                Poll::Pending
            }
        }
    }

    pub(super) fn poll_sendfile(
        &mut self,
        cx: &mut Context<'_>,
        file: BorrowedFd<'_>,
        offset: &mut u64,
        count: usize,
    ) -> Poll<io::Result<usize>> {
        self.check_idle()?;
        if self.writable {
            match sendfile_now(self.fd.as_fd(), file, offset, count) {
                Err(Errno::AGAIN) => self.writable = false,
                result => return Poll::Ready(result.map_err(io::Error::from)),
            }
        }
        self.writer.wait(cx);
        Poll::Pending
    }

    pub(super) fn shutdown_write(&self) -> io::Result<()> {
        if matches!(self.sending, EpollSending::Blocked(_)) {
            return Err(under_way());
        }
        Ok(rustix::net::shutdown(&self.fd, rustix::net::Shutdown::Write)?)
    }
}
