//! A socket of the io_uring driver.
//!
//! Contains the states of receiving and sending. An idle stream keeps no buffer and under 128
//! bytes. Receiving is armed when a task first waits (`early.rs`) and stays armed. It is suspended
//! while too many buffers are parked unread, and ends before the socket is released. Receiving uses
//! system calls while the shared buffers are all in use, so that no reader depends on other
//! readers. It also uses system calls, without the copy out of shared buffers, after a large burst
//! to a reader with room for another. A closed stream stays in the table only while the kernel may
//! read the memory of its send. Tested in `tests/suite`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll};

use bytes::Bytes;
use rustix::io::Errno;

use super::buffers::{GROUP, Parked};
use super::outbox::SendOp;
use super::ring::{Attempt, Completion};
use super::{NOBODY, Shared, operation};
use crate::More;
use crate::connect::connect_result;
use crate::driver::outgoing::{Outgoing, reset_when_closed, sendfile_now};
use crate::driver::table::Id;
use crate::driver::waiter::Waiter;
use crate::error::under_way;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Receiving {
    /// No receive yet.
    Fresh,
    /// Nothing is armed.
    Idle,
    /// Bytes arrive in shared buffers.
    Armed,
    /// As armed, but canceled: the last completion is awaited.
    Suspending,
    /// As suspending, and the task that requested the socket is told of that completion.
    Releasing,
    /// Bytes may be there that do not go through shared buffers: receive by a system call.
    Direct,
    /// No such bytes were there; the kernel reports a change.
    Watching,
}

enum Sending {
    Idle,
    /// In the queue, or consumed and undecided.
    Queued(Box<SendOp>),
    /// The kernel waits for room.
    InFlight(Box<SendOp>),
    Done,
    /// The error number.
    Failed(i32),
}

/// Whether the table still needs a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Stays,
    Gone,
}

impl Fate {
    pub(super) fn is_gone(self) -> bool {
        self == Self::Gone
    }
}

/// Whether the driver can release a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Release {
    Now,
    /// Once receiving has ended, which wakes the task.
    Later,
    Not,
}

pub(super) struct Stream {
    /// `None` once the descriptor is closed.
    fd: Option<OwnedFd>,
    /// Closed, and its descriptor is closed when the kernel has decided the send that is queued.
    is_closing: bool,
    receiving: Receiving,
    /// Whether a burst has filled the maximum of parked buffers.
    is_rich: bool,
    /// Whether the reader had room for such a burst.
    is_roomy: bool,
    /// Whether room for sendfile, or a connection, is awaited.
    watching_writable: bool,
    parked: Parked,
    /// The end of receiving, reported after the parked bytes: 0 for the end of the stream, else an
    /// error number.
    ended: Option<i32>,
    sending: Sending,
    reader: Waiter,
    writer: Waiter,
}

impl Stream {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self {
            fd: Some(fd),
            is_closing: false,
            receiving: Receiving::Fresh,
            is_rich: false,
            is_roomy: false,
            watching_writable: false,
            parked: Parked::EMPTY,
            ended: None,
            sending: Sending::Idle,
            reader: Waiter::default(),
            writer: Waiter::default(),
        }
    }

    /// A socket on which bytes have usually arrived already: the first receive is a system call.
    pub(super) fn resumed(fd: OwnedFd) -> Self {
        Self { receiving: Receiving::Direct, ..Self::new(fd) }
    }

    /// A connection made by this side: usually no bytes arrive before the first send.
    pub(super) fn made_here(fd: OwnedFd) -> Self {
        Self { receiving: Receiving::Idle, ..Self::new(fd) }
    }

    pub(super) fn is_open(&self) -> bool {
        self.fd.is_some() && !self.is_closing
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().filter(|_| !self.is_closing).map(AsFd::as_fd)
    }

    pub(super) fn into_fd(self) -> Option<OwnedFd> {
        self.fd
    }

    fn open_fd(&self) -> BorrowedFd<'_> {
        self.fd().expect("only open streams are operated on")
    }

    #[inline]
    pub(super) fn poll_recv(
        &mut self,
        id: Id,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        shared: &mut Shared,
    ) -> Poll<io::Result<usize>> {
        if self.parked.count > 0 {
            return Poll::Ready(Ok(shared.buffers.take(&mut self.parked, buf)));
        }
        if let Some(error) = self.ended {
            // An error is reported once, as on the socket; afterwards comes the end.
            self.ended = Some(0);
            return Poll::Ready(if error == 0 { Ok(0) } else { Err(io::Error::from_raw_os_error(error)) });
        }
        self.is_roomy = buf.capacity() - buf.len() >= shared.parked_bytes_max();
        let is_fresh = self.receiving == Receiving::Fresh;
        if is_fresh {
            self.receiving = if shared.early.is_likely() { Receiving::Direct } else { Receiving::Idle };
        }
        if self.receiving == Receiving::Direct {
            let answer = self.receive_directly(buf, shared);
            if is_fresh {
                shared.early.learn(answer.is_some());
            }
            if let Some(answer) = answer {
                return Poll::Ready(answer);
            }
        }
        self.reader.wait(cx);
        match self.receiving {
            Receiving::Idle => self.arm_receive(id, shared),
            Receiving::Armed if self.is_for_reader() => self.suspend(id, shared),
            _ => {}
        }
        Poll::Pending
    }

    /// Receives by a system call; `None` if there are no bytes.
    fn receive_directly(&mut self, buf: &mut Vec<u8>, shared: &mut Shared) -> Option<io::Result<usize>> {
        match shared.inbox.receive(self.open_fd(), buf) {
            Err(Errno::AGAIN) => {
                self.receiving = Receiving::Idle;
                None
            }
            Ok(received) => {
                self.ended = (received.count == 0).then_some(0);
                if !received.is_full() || self.is_shared(shared) {
                    self.receiving = Receiving::Idle;
                }
                Some(Ok(received.count))
            }
            Err(error) => {
                self.ended = Some(0);
                Some(Err(error.into()))
            }
        }
    }

    /// Whether bytes should go directly into the reader's memory.
    fn is_for_reader(&self) -> bool {
        self.is_rich && self.is_roomy
    }

    /// Whether bytes can go into shared buffers, and should.
    fn is_shared(&self, shared: &Shared) -> bool {
        !self.is_for_reader() && shared.buffers.has_offered()
    }

    fn arm_receive(&mut self, id: Id, shared: &mut Shared) {
        let fd = self.open_fd().as_raw_fd();
        if self.is_shared(shared) {
            shared.ring.receive(fd, GROUP, id.pack(operation::RECEIVE));
            self.receiving = Receiving::Armed;
        } else {
            shared.ring.poll(fd, libc::POLLIN | libc::POLLRDHUP, id.pack(operation::READABLE));
            self.receiving = Receiving::Watching;
        }
    }

    pub(super) fn on_received(&mut self, id: Id, completion: Completion, shared: &mut Shared) {
        match (completion.result, completion.buffer()) {
            (count @ 1.., Some(buffer)) if self.is_open() => {
                shared.buffers.park(&mut self.parked, buffer, count as u32);
            }
            (_, Some(buffer)) => shared.buffers.discard(buffer),
            (0.., None) => {}
            (error, None) => self.on_receive_error(-error),
        }
        if completion.result == 0 {
            self.ended = Some(0);
        }
        let is_crowded = self.parked.count >= shared.parked_max;
        self.is_rich |= is_crowded;
        let mut is_released = false;
        if completion.goes_on() {
            if is_crowded {
                shared.crowded.push(id);
            }
        } else if self.receiving != Receiving::Direct {
            is_released = self.receiving == Receiving::Releasing;
            self.receiving = Receiving::Idle;
        }
        let something_to_tell = is_released
            || self.parked.count > 0
            || self.ended.is_some()
            || self.receiving == Receiving::Direct;
        if something_to_tell {
            self.reader.wake();
        } else if self.receiving == Receiving::Idle && self.reader.is_waiting() {
            self.arm_receive(id, shared);
        }
    }

    fn on_receive_error(&mut self, error: i32) {
        match error {
            libc::ENOBUFS => self.receiving = Receiving::Direct,
            libc::ECANCELED | libc::EINTR | libc::EAGAIN => {}
            error => self.ended = Some(error),
        }
    }

    /// A watched stream is readable.
    pub(super) fn on_readable(&mut self) {
        self.receiving = Receiving::Direct;
        self.reader.wake();
    }

    pub(super) fn suspend_if_crowded(&mut self, id: Id, shared: &mut Shared) {
        if self.receiving == Receiving::Armed && self.parked.count >= shared.parked_max {
            self.suspend(id, shared);
        }
    }

    fn suspend(&mut self, id: Id, shared: &mut Shared) {
        self.receiving = Receiving::Suspending;
        self.cancel_receive(id, shared);
    }

    /// A receive under way would take the next bytes, so the receive must end first. A stream in
    /// another state than the following was not idle.
    pub(super) fn release(&mut self, id: Id, cx: &Context<'_>, shared: &mut Shared) -> Release {
        let sends = !matches!(self.sending, Sending::Idle | Sending::Done);
        if sends || self.watching_writable || self.parked.count > 0 || self.ended.is_some() {
            return Release::Not;
        }
        match self.receiving {
            Receiving::Fresh | Receiving::Idle => return Release::Now,
            Receiving::Direct | Receiving::Watching => return Release::Not,
            Receiving::Armed => self.cancel_receive(id, shared),
            Receiving::Suspending | Receiving::Releasing => {}
        }
        self.receiving = Receiving::Releasing;
        self.reader.wait(cx);
        Release::Later
    }

    fn cancel_receive(&self, id: Id, shared: &mut Shared) {
        shared.ring.cancel(id.pack(operation::RECEIVE), NOBODY.pack(operation::SILENT));
    }

    #[inline]
    pub(super) fn start_send(
        &mut self,
        id: Id,
        head: Vec<u8>,
        body: Bytes,
        more: More,
        shared: &mut Shared,
    ) -> io::Result<()> {
        self.check_idle()?;
        let mut outgoing = Outgoing::new(head, body, more);
        if outgoing.is_done() {
            shared.spares.put(outgoing.into_head());
            self.sending = Sending::Done;
            return Ok(());
        }
        if more == More::Yes {
            // A caller that says that more follows waits for this send, so queuing the send would
            // only cost a turn.
            self.sending = match outgoing.send_now(self.open_fd()) {
                Ok(true) => {
                    shared.spares.put(outgoing.into_head());
                    Sending::Done
                }
                Ok(false) => Sending::InFlight(self.send_whole(id, shared.outbox.pack(outgoing), shared)),
                Err(error) => Sending::Failed(error.raw_os_error().unwrap_or(libc::EIO)),
            };
            return Ok(());
        }
        let mut op = shared.outbox.pack(outgoing);
        let fd = self.open_fd().as_raw_fd();
        let pushed = send(&mut op, fd, Attempt::AtOnce, id, shared);
        shared.queued.push_back((pushed, id));
        self.sending = Sending::Queued(op);
        Ok(())
    }

    #[inline]
    fn check_idle(&self) -> io::Result<()> {
        if matches!(self.sending, Sending::Idle) { Ok(()) } else { Err(under_way()) }
    }

    fn send_whole(&self, id: Id, mut op: Box<SendOp>, shared: &mut Shared) -> Box<SendOp> {
        send(&mut op, self.open_fd().as_raw_fd(), Attempt::Whole, id, shared);
        op
    }

    /// A non-blocking send was not taken completely, or a whole send has ended.
    pub(super) fn on_sent(&mut self, id: Id, result: i32, shared: &mut Shared) -> Fate {
        let (Sending::Queued(mut op) | Sending::InFlight(mut op)) =
            std::mem::replace(&mut self.sending, Sending::Idle)
        else {
            unreachable!("a send completed that was not under way");
        };
        op.outgoing.advance(usize::try_from(result).unwrap_or(0));
        let goes_on = result >= 0 || matches!(-result, libc::EAGAIN | libc::EINTR);
        if !self.is_open() {
            if !op.outgoing.is_done() {
                self.reset_when_closed();
            }
            shared.outbox.unpack(op);
            // The descriptor is closed at once: the next submission may be far.
            return Fate::Gone;
        }
        if goes_on && !op.outgoing.is_done() {
            self.sending = Sending::InFlight(self.send_whole(id, op, shared));
            return Fate::Stays;
        }
        let head = shared.outbox.unpack(op);
        shared.spares.put(head);
        self.sending = if goes_on { Sending::Done } else { Sending::Failed(-result) };
        self.writer.wake();
        Fate::Stays
    }

    /// The entry of a send has been consumed: a send that is still queued had no error.
    #[inline]
    pub(super) fn settle(&mut self, shared: &mut Shared) -> Fate {
        if !matches!(self.sending, Sending::Queued(_)) {
            return Fate::Stays;
        }
        if let Sending::Queued(op) = std::mem::replace(&mut self.sending, Sending::Idle) {
            let head = shared.outbox.unpack(op);
            shared.spares.put(head);
            self.sending = Sending::Done;
        }
        if !self.is_open() {
            return Fate::Gone;
        }
        self.writer.wake();
        Fate::Stays
    }

    #[inline]
    pub(super) fn poll_sent(
        &mut self,
        cx: &mut Context<'_>,
        shared: &mut Shared,
    ) -> Poll<io::Result<Vec<u8>>> {
        match std::mem::replace(&mut self.sending, Sending::Idle) {
            Sending::Idle | Sending::Done => Poll::Ready(Ok(shared.spares.take())),
            Sending::Failed(error) => Poll::Ready(Err(io::Error::from_raw_os_error(error))),
            under_way => {
                shared.awaited |= matches!(under_way, Sending::Queued(_));
                self.sending = under_way;
                self.writer.wait(cx);
                Poll::Pending
            }
        }
    }

    /// Sends from a file, or `None` if there is no room.
    pub(super) fn sendfile(
        &mut self,
        file: BorrowedFd<'_>,
        offset: &mut u64,
        count: usize,
    ) -> io::Result<Option<usize>> {
        self.check_idle()?;
        match sendfile_now(self.open_fd(), file, offset, count) {
            Err(Errno::AGAIN) => Ok(None),
            result => Ok(Some(result?)),
        }
    }

    pub(super) fn wait_writable(&mut self, id: Id, cx: &mut Context<'_>, shared: &mut Shared) {
        self.writer.wait(cx);
        self.watch_writable(id, shared);
    }

    pub(super) fn watch_writable(&mut self, id: Id, shared: &mut Shared) {
        if !self.watching_writable {
            self.watching_writable = true;
            shared.ring.poll(self.open_fd().as_raw_fd(), libc::POLLOUT, id.pack(operation::WRITABLE));
        }
    }

    /// A connecting socket is watched for room, which comes with the connection or its failure.
    pub(super) fn poll_connected(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.watching_writable {
            return Poll::Ready(connect_result(self.open_fd()));
        }
        self.writer.wait(cx);
        Poll::Pending
    }

    pub(super) fn on_writable(&mut self) {
        self.watching_writable = false;
        self.writer.wake();
    }

    pub(super) fn shutdown_write(&self) -> io::Result<()> {
        if matches!(self.sending, Sending::Queued(_) | Sending::InFlight(_)) {
            return Err(under_way());
        }
        Ok(rustix::net::shutdown(self.open_fd(), rustix::net::Shutdown::Write)?)
    }

    /// Has the close reset the connection.
    fn reset_when_closed(&self) {
        if let Some(fd) = &self.fd {
            reset_when_closed(fd.as_fd());
        }
    }

    fn close_descriptor(&mut self, shared: &mut Shared) {
        if let Some(fd) = self.fd.take() {
            shared.ring.close(fd, NOBODY.pack(operation::SILENT));
        }
    }

    /// Cancels operations under way and closes the descriptor, all with the next submission.
    /// Requests hold the socket, not the descriptor, so the number may be reused at once; later
    /// completions find a stale id.
    /// While a send is queued, the descriptor stays open until the kernel has decided the send,
    /// because only then is it known whether the peer gets all of it.
    pub(super) fn close(&mut self, id: Id, shared: &mut Shared) -> Fate {
        if !self.is_open() {
            return Fate::Stays;
        }
        shared.buffers.clear(&mut self.parked);
        self.reader.clear();
        self.writer.clear();
        let silent = NOBODY.pack(operation::SILENT);
        match self.receiving {
            Receiving::Armed => shared.ring.cancel(id.pack(operation::RECEIVE), silent),
            Receiving::Watching => shared.ring.cancel(id.pack(operation::READABLE), silent),
            Receiving::Fresh
            | Receiving::Idle
            | Receiving::Suspending
            | Receiving::Releasing
            | Receiving::Direct => {}
        }
        if self.watching_writable {
            shared.ring.cancel(id.pack(operation::WRITABLE), silent);
        }
        match self.sending {
            Sending::Queued(_) => {
                self.is_closing = true;
                // The next turn does not wait before it has settled the send: a success tells
                // nothing that would wake it.
                shared.awaited = true;
                Fate::Stays
            }
            Sending::InFlight(_) => {
                self.reset_when_closed();
                shared.ring.cancel(id.pack(operation::SEND_WHOLE), silent);
                self.close_descriptor(shared);
                Fate::Stays
            }
            Sending::Idle | Sending::Done | Sending::Failed(_) => {
                self.close_descriptor(shared);
                Fate::Gone
            }
        }
    }
}

/// Queues a send of the rest of `op`.
#[allow(unsafe_code)]
#[inline]
fn send(op: &mut SendOp, socket: i32, attempt: Attempt, id: Id, shared: &mut Shared) -> u64 {
    let operation = match attempt {
        Attempt::AtOnce => operation::SEND_AT_ONCE,
        Attempt::Whole => operation::SEND_WHOLE,
    };
    // SAFETY: the box goes into `Sending::Queued` or `Sending::InFlight`, which only the completion
    // or `settle` leaves, and a stream in one of these states stays in the table even when closed.
    unsafe { shared.ring.send(socket, op, attempt, id.pack(operation)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_stream_is_small() {
        let bytes = size_of::<(u32, Stream)>();
        assert!(bytes <= 128, "{bytes} bytes");
    }
}
