//! A socket of the io_uring driver.
//!
//! Contains the states of receiving and sending. An idle stream keeps no buffer and under 128
//! bytes. Receiving is armed when a task first waits (`speculative_recv.rs`) and stays armed. It is
//! suspended while too many buffers are parked unread, and ends before the socket is released.
//! Receiving uses system calls while the shared buffers are all in use, so that no reader depends
//! on other readers. After a burst that filled all buffers of a stream, a reader with as much free
//! room receives by system calls too, directly into its own memory, which saves a copy. A closed
//! stream stays in the table only while the kernel may read the memory of its send. Tested in
//! `tests/suite`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll};

use bytes::Bytes;
use rustix::io::Errno;

use super::buffers::{GROUP, Parked};
use super::outbox::SendOp;
use super::ring::{Completion, SendForm};
use super::{NOBODY, UringShared, operation};
use crate::More;
use crate::connect::connect_result;
use crate::driver::detached::{DetachedSend, DetachedStream, Received};
use crate::driver::outgoing::{Outgoing, reset_when_closed, sendfile_now};
use crate::driver::table::Id;
use crate::driver::waiter::Waiter;
use crate::error::under_way;

#[derive(Clone, Copy, PartialEq, Eq)]
enum UringReceiving {
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
    /// Bytes or an end that another driver has received come first.
    Carried,
}

enum UringSending {
    Idle,
    /// In the queue, or consumed and undecided.
    Queued(Box<SendOp>),
    /// The kernel waits for room.
    InFlight(Box<SendOp>),
    /// The stream leaves the driver: the next driver sends the rest.
    Unsent(Box<SendOp>),
    Done,
    /// The error number.
    Failed(i32),
}

/// Whether a stream is used, leaves the driver or is closed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StreamPhase {
    Open,
    /// No operation is begun; those under way end.
    Detaching,
    /// The descriptor is closed when the kernel has decided the send that is queued.
    Closing,
}

/// Whether the table still needs a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamFate {
    Stays,
    Gone,
    /// The stream can leave the driver.
    Leaves,
}

impl StreamFate {
    pub(super) fn is_gone(self) -> bool {
        self == Self::Gone
    }

    pub(super) fn leaves_if(leaves: bool) -> Self {
        if leaves { Self::Leaves } else { Self::Stays }
    }
}

/// Whether the driver can release a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamRelease {
    Now,
    /// Once receiving has ended, which wakes the task.
    Later,
    Not,
}

pub(super) struct UringStream {
    /// `None` once the descriptor is closed.
    fd: Option<OwnedFd>,
    phase: StreamPhase,
    receiving: UringReceiving,
    /// Whether a burst has filled the maximum of parked buffers.
    reads_directly: bool,
    /// Whether the reader had room for such a burst.
    has_large_buffer: bool,
    /// Whether room for sendfile, or a connection, is awaited.
    watching_writable: bool,
    parked: Parked,
    /// The end of receiving, reported after the parked bytes: 0 for the end of the stream, else an
    /// error number.
    ended: Option<i32>,
    /// In the state `Carried`: what another driver has received.
    carried: Option<Box<Received>>,
    sending: UringSending,
    reader: Waiter,
    writer: Waiter,
}

impl UringStream {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self {
            fd: Some(fd),
            phase: StreamPhase::Open,
            receiving: UringReceiving::Fresh,
            reads_directly: false,
            has_large_buffer: false,
            watching_writable: false,
            parked: Parked::EMPTY,
            ended: None,
            carried: None,
            sending: UringSending::Idle,
            reader: Waiter::default(),
            writer: Waiter::default(),
        }
    }

    /// A socket on which bytes have usually arrived already: the first receive is a system call.
    pub(super) fn resumed(fd: OwnedFd) -> Self {
        Self { receiving: UringReceiving::Direct, ..Self::new(fd) }
    }

    /// A connection made by this side: usually no bytes arrive before the first send.
    pub(super) fn made_here(fd: OwnedFd) -> Self {
        Self { receiving: UringReceiving::Idle, ..Self::new(fd) }
    }

    pub(super) fn is_open(&self) -> bool {
        self.fd.is_some() && self.phase != StreamPhase::Closing
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().filter(|_| self.phase != StreamPhase::Closing).map(AsFd::as_fd)
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
        shared: &mut UringShared,
    ) -> Poll<io::Result<usize>> {
        if let Some(answer) = self.take_received(buf, shared) {
            return Poll::Ready(answer);
        }
        self.has_large_buffer = buf.capacity() - buf.len() >= shared.parked_bytes_max();
        let is_fresh = self.receiving == UringReceiving::Fresh;
        if is_fresh {
            self.receiving = if shared.speculative_recv.is_likely() {
                UringReceiving::Direct
            } else {
                UringReceiving::Idle
            };
        }
        if self.receiving == UringReceiving::Direct {
            let answer = self.receive_directly(buf, shared);
            if is_fresh {
                shared.speculative_recv.learn(answer.is_some());
            }
            if let Some(answer) = answer {
                return Poll::Ready(answer);
            }
        }
        self.reader.wait(cx);
        match self.receiving {
            UringReceiving::Idle => self.arm_receive(id, shared),
            UringReceiving::Armed if self.is_for_reader() => self.suspend(id, shared),
            _ => {}
        }
        Poll::Pending
    }

    /// Takes the bytes, or the end, that the driver has received already.
    #[inline]
    fn take_received(&mut self, buf: &mut Vec<u8>, shared: &mut UringShared) -> Option<io::Result<usize>> {
        if self.parked.count > 0 {
            return Some(Ok(shared.buffers.take(&mut self.parked, buf)));
        }
        if self.receiving == UringReceiving::Carried {
            return Some(self.take_carried(buf, shared));
        }
        let error = self.ended?;
        // An error is reported once, as on the socket; afterwards comes the end.
        self.ended = Some(0);
        Some(if error == 0 { Ok(0) } else { Err(io::Error::from_raw_os_error(error)) })
    }

    /// Receives bytes that have arrived. Neither arms a receive nor touches the waiting task.
    pub(super) fn try_recv(
        &mut self,
        buf: &mut Vec<u8>,
        shared: &mut UringShared,
    ) -> Option<io::Result<usize>> {
        if let Some(answer) = self.take_received(buf, shared) {
            return Some(answer);
        }
        match self.receiving {
            UringReceiving::Fresh | UringReceiving::Idle | UringReceiving::Direct => {
                self.receive_directly(buf, shared)
            }
            UringReceiving::Watching => {
                // The watch goes on, because its completion is still to come.
                let answer = self.receive_directly(buf, shared);
                self.receiving = UringReceiving::Watching;
                answer
            }
            // The kernel receives into shared buffers, and earlier bytes may be on their way there.
            UringReceiving::Armed
            | UringReceiving::Suspending
            | UringReceiving::Releasing
            | UringReceiving::Carried => None,
        }
    }

    /// Whether the kernel receives, or will receive, into shared buffers.
    pub(super) fn is_armed(&self) -> bool {
        matches!(
            self.receiving,
            UringReceiving::Armed | UringReceiving::Suspending | UringReceiving::Releasing
        )
    }

    /// Reads what another driver has received.
    #[cold]
    fn take_carried(&mut self, buf: &mut Vec<u8>, shared: &UringShared) -> io::Result<usize> {
        let carried = self.carried.as_mut().expect("the state says so");
        let most = shared.inbox.bytes().max(buf.capacity() - buf.len());
        let count = carried.read(buf, most);
        if carried.is_read() {
            self.carried = None;
            self.receiving = UringReceiving::Idle;
        }
        count
    }

    /// Receives by a system call; `None` if there are no bytes.
    fn receive_directly(&mut self, buf: &mut Vec<u8>, shared: &mut UringShared) -> Option<io::Result<usize>> {
        match shared.inbox.receive(self.open_fd(), buf) {
            Err(Errno::AGAIN) => {
                self.receiving = UringReceiving::Idle;
                None
            }
            Ok(received) => {
                self.ended = (received.count == 0).then_some(0);
                if !received.is_full() || self.is_shared(shared) {
                    self.receiving = UringReceiving::Idle;
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
        self.reads_directly && self.has_large_buffer
    }

    /// Whether bytes can go into shared buffers, and should.
    fn is_shared(&self, shared: &UringShared) -> bool {
        !self.is_for_reader() && shared.buffers.has_offered()
    }

    fn arm_receive(&mut self, id: Id, shared: &mut UringShared) {
        if self.phase == StreamPhase::Detaching {
            return;
        }
        let fd = self.open_fd().as_raw_fd();
        if self.is_shared(shared) {
            shared.ring.receive(fd, GROUP, id.pack(operation::RECEIVE));
            self.receiving = UringReceiving::Armed;
        } else {
            shared.ring.poll(fd, libc::POLLIN | libc::POLLRDHUP, id.pack(operation::READABLE));
            self.receiving = UringReceiving::Watching;
        }
    }

    pub(super) fn on_received(
        &mut self,
        id: Id,
        completion: Completion,
        shared: &mut UringShared,
    ) -> StreamFate {
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
        self.reads_directly |= is_crowded;
        let mut is_released = false;
        if completion.goes_on() {
            if is_crowded {
                shared.over_budget.push(id);
            }
        } else if self.receiving != UringReceiving::Direct {
            is_released = self.receiving == UringReceiving::Releasing;
            self.receiving = UringReceiving::Idle;
        }
        let something_to_tell = is_released
            || self.parked.count > 0
            || self.ended.is_some()
            || self.receiving == UringReceiving::Direct;
        if something_to_tell {
            self.reader.wake();
        } else if self.receiving == UringReceiving::Idle && self.reader.is_waiting() {
            self.arm_receive(id, shared);
        }
        StreamFate::leaves_if(self.can_leave())
    }

    fn on_receive_error(&mut self, error: i32) {
        match error {
            libc::ENOBUFS => self.receiving = UringReceiving::Direct,
            libc::ECANCELED | libc::EINTR | libc::EAGAIN => {}
            error => self.ended = Some(error),
        }
    }

    /// A watched stream is readable.
    pub(super) fn on_readable(&mut self) {
        self.receiving = UringReceiving::Direct;
        self.reader.wake();
    }

    pub(super) fn suspend_if_over_budget(&mut self, id: Id, shared: &mut UringShared) {
        if self.receiving == UringReceiving::Armed && self.parked.count >= shared.parked_max {
            self.suspend(id, shared);
        }
    }

    fn suspend(&mut self, id: Id, shared: &mut UringShared) {
        self.receiving = UringReceiving::Suspending;
        self.cancel_receive(id, shared);
    }

    /// Gives up the socket of an idle stream. An armed receive would take the next bytes, so the
    /// receive is cancelled first (`Later`). A stream with unread bytes, an end, a send or a watch
    /// is not idle (`Not`).
    pub(super) fn release(&mut self, id: Id, cx: &Context<'_>, shared: &mut UringShared) -> StreamRelease {
        let leaves = self.phase == StreamPhase::Detaching;
        let sends = !matches!(self.sending, UringSending::Idle | UringSending::Done);
        if leaves || sends || self.watching_writable || self.parked.count > 0 || self.ended.is_some() {
            return StreamRelease::Not;
        }
        match self.receiving {
            UringReceiving::Fresh | UringReceiving::Idle => return StreamRelease::Now,
            UringReceiving::Direct | UringReceiving::Watching | UringReceiving::Carried => {
                return StreamRelease::Not;
            }
            UringReceiving::Armed => self.cancel_receive(id, shared),
            UringReceiving::Suspending | UringReceiving::Releasing => {}
        }
        self.receiving = UringReceiving::Releasing;
        self.reader.wait(cx);
        StreamRelease::Later
    }

    fn cancel_receive(&self, id: Id, shared: &mut UringShared) {
        shared.ring.cancel(id.pack(operation::RECEIVE), NOBODY.pack(operation::SILENT));
    }

    #[inline]
    pub(super) fn start_send(
        &mut self,
        id: Id,
        head: Vec<u8>,
        body: Bytes,
        more: More,
        shared: &mut UringShared,
    ) -> io::Result<()> {
        self.check_idle()?;
        let mut outgoing = Outgoing::new(head, body, more);
        if outgoing.is_done() {
            shared.free_list.put(outgoing.into_head());
            self.sending = UringSending::Done;
            return Ok(());
        }
        if self.phase == StreamPhase::Detaching {
            self.sending = UringSending::Unsent(shared.outbox.pack(outgoing));
            return Ok(());
        }
        if more == More::Yes {
            // A caller that says that more follows waits for this send, so queuing the send would
            // only cost a turn.
            self.sending = match outgoing.send_now(self.open_fd()) {
                Ok(true) => {
                    shared.free_list.put(outgoing.into_head());
                    UringSending::Done
                }
                Ok(false) => {
                    UringSending::InFlight(self.send_whole(id, shared.outbox.pack(outgoing), shared))
                }
                Err(error) => {
                    self.reset_when_closed();
                    UringSending::Failed(error.raw_os_error().unwrap_or(libc::EIO))
                }
            };
            return Ok(());
        }
        let mut op = shared.outbox.pack(outgoing);
        let fd = self.open_fd().as_raw_fd();
        let pushed = send(&mut op, fd, SendForm::AtOnce, id, shared);
        shared.queued.push_back((pushed, id));
        self.sending = UringSending::Queued(op);
        Ok(())
    }

    #[inline]
    fn check_idle(&self) -> io::Result<()> {
        if matches!(self.sending, UringSending::Idle) { Ok(()) } else { Err(under_way()) }
    }

    fn send_whole(&self, id: Id, mut op: Box<SendOp>, shared: &mut UringShared) -> Box<SendOp> {
        send(&mut op, self.open_fd().as_raw_fd(), SendForm::Whole, id, shared);
        op
    }

    /// A non-blocking send was not taken completely, or a whole send has ended.
    pub(super) fn on_sent(&mut self, id: Id, result: i32, shared: &mut UringShared) -> StreamFate {
        let (UringSending::Queued(mut op) | UringSending::InFlight(mut op)) =
            std::mem::replace(&mut self.sending, UringSending::Idle)
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
            return StreamFate::Gone;
        }
        let leaves = self.phase == StreamPhase::Detaching;
        let goes_on = goes_on || leaves && -result == libc::ECANCELED;
        if goes_on && !op.outgoing.is_done() {
            if leaves {
                self.sending = UringSending::Unsent(op);
                return StreamFate::leaves_if(self.can_leave());
            }
            self.sending = UringSending::InFlight(self.send_whole(id, op, shared));
            return StreamFate::Stays;
        }
        if !op.outgoing.is_done() {
            // The send has failed.
            self.reset_when_closed();
        }
        let head = shared.outbox.unpack(op);
        shared.free_list.put(head);
        self.sending = if goes_on { UringSending::Done } else { UringSending::Failed(-result) };
        self.writer.wake();
        StreamFate::leaves_if(self.can_leave())
    }

    /// The entry of a send has been consumed: a send that is still queued had no error.
    #[inline]
    pub(super) fn settle(&mut self, shared: &mut UringShared) -> StreamFate {
        if !matches!(self.sending, UringSending::Queued(_)) {
            return StreamFate::Stays;
        }
        if let UringSending::Queued(op) = std::mem::replace(&mut self.sending, UringSending::Idle) {
            let head = shared.outbox.unpack(op);
            shared.free_list.put(head);
            self.sending = UringSending::Done;
        }
        if !self.is_open() {
            return StreamFate::Gone;
        }
        self.writer.wake();
        StreamFate::leaves_if(self.can_leave())
    }

    #[inline]
    pub(super) fn poll_sent(
        &mut self,
        cx: &mut Context<'_>,
        shared: &mut UringShared,
    ) -> Poll<io::Result<Vec<u8>>> {
        match std::mem::replace(&mut self.sending, UringSending::Idle) {
            UringSending::Idle | UringSending::Done => Poll::Ready(Ok(shared.free_list.take())),
            UringSending::Failed(error) => Poll::Ready(Err(io::Error::from_raw_os_error(error))),
            under_way => {
                shared.awaited |= matches!(under_way, UringSending::Queued(_));
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

    pub(super) fn wait_writable(&mut self, id: Id, cx: &mut Context<'_>, shared: &mut UringShared) {
        self.writer.wait(cx);
        self.watch_writable(id, shared);
    }

    pub(super) fn watch_writable(&mut self, id: Id, shared: &mut UringShared) {
        if !self.watching_writable {
            self.watching_writable = true;
            if self.phase == StreamPhase::Detaching {
                // The next driver watches.
                return;
            }
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
        if self.phase == StreamPhase::Detaching {
            // The watch was cancelled, and the next driver watches again.
            return;
        }
        self.watching_writable = false;
        self.writer.wake();
    }

    pub(super) fn shutdown_write(&self) -> io::Result<()> {
        if matches!(
            self.sending,
            UringSending::Queued(_) | UringSending::InFlight(_) | UringSending::Unsent(_)
        ) {
            return Err(under_way());
        }
        Ok(rustix::net::shutdown(self.open_fd(), rustix::net::Shutdown::Write)?)
    }

    /// Has the close reset the connection, by this driver or by any later owner of the socket.
    fn reset_when_closed(&self) {
        if let Some(fd) = &self.fd {
            reset_when_closed(fd.as_fd());
        }
    }

    fn close_descriptor(&mut self, shared: &mut UringShared) {
        if let Some(fd) = self.fd.take() {
            shared.ring.close(fd, NOBODY.pack(operation::SILENT));
        }
    }

    /// Cancels operations under way and closes the descriptor, all with the next submission.
    /// Requests hold the socket, not the descriptor, so the number may be reused at once; later
    /// completions find a stale id.
    /// While a send is queued, the descriptor stays open until the kernel has decided the send,
    /// because only then is it known whether the peer gets all of it.
    pub(super) fn close(&mut self, id: Id, shared: &mut UringShared) -> StreamFate {
        if !self.is_open() {
            return StreamFate::Stays;
        }
        shared.buffers.clear(&mut self.parked);
        self.reader.clear();
        self.writer.clear();
        let silent = NOBODY.pack(operation::SILENT);
        match self.receiving {
            UringReceiving::Armed => shared.ring.cancel(id.pack(operation::RECEIVE), silent),
            UringReceiving::Watching => shared.ring.cancel(id.pack(operation::READABLE), silent),
            UringReceiving::Fresh
            | UringReceiving::Idle
            | UringReceiving::Suspending
            | UringReceiving::Releasing
            | UringReceiving::Direct
            | UringReceiving::Carried => {}
        }
        if self.watching_writable {
            shared.ring.cancel(id.pack(operation::WRITABLE), silent);
        }
        match self.sending {
            UringSending::Queued(_) => {
                self.phase = StreamPhase::Closing;
                // The next turn does not wait before it has settled the send: a success tells
                // nothing that would wake it.
                shared.awaited = true;
                StreamFate::Stays
            }
            UringSending::InFlight(_) => {
                self.reset_when_closed();
                shared.ring.cancel(id.pack(operation::SEND_WHOLE), silent);
                self.close_descriptor(shared);
                StreamFate::Stays
            }
            UringSending::Unsent(_) => {
                self.reset_when_closed();
                self.close_descriptor(shared);
                StreamFate::Gone
            }
            UringSending::Idle | UringSending::Done | UringSending::Failed(_) => {
                self.close_descriptor(shared);
                StreamFate::Gone
            }
        }
    }
}

impl UringStream {
    /// The stream leaves the driver: cancels the operations under way. The completions of receives
    /// and sends are still to come, because they may have bytes. Returns `Leaves` if the stream can
    /// leave now.
    pub(super) fn detach(&mut self, id: Id, shared: &mut UringShared) -> StreamFate {
        if self.phase == StreamPhase::Detaching {
            return StreamFate::Stays;
        }
        self.phase = StreamPhase::Detaching;
        let silent = NOBODY.pack(operation::SILENT);
        match self.receiving {
            UringReceiving::Armed => self.suspend(id, shared),
            UringReceiving::Watching => {
                // The next driver asks the socket.
                shared.ring.cancel(id.pack(operation::READABLE), silent);
                self.receiving = UringReceiving::Idle;
            }
            _ => {}
        }
        if self.watching_writable {
            shared.ring.cancel(id.pack(operation::WRITABLE), silent);
        }
        match self.sending {
            // The next turn does not wait before it has settled the send.
            UringSending::Queued(_) => shared.awaited = true,
            UringSending::InFlight(_) => shared.ring.cancel(id.pack(operation::SEND_WHOLE), silent),
            _ => {}
        }
        StreamFate::leaves_if(self.can_leave())
    }

    /// Whether the stream leaves, and no completion with bytes is still to come.
    fn can_leave(&self) -> bool {
        let sends = matches!(self.sending, UringSending::Queued(_) | UringSending::InFlight(_));
        self.phase == StreamPhase::Detaching && !self.is_armed() && !sends
    }

    /// The stream, after it has left the driver.
    pub(super) fn into_detached(mut self, shared: &mut UringShared) -> DetachedStream {
        let mut received = self.carried.take().map_or_else(Received::default, |carried| *carried);
        while self.parked.count > 0 {
            shared.buffers.take(&mut self.parked, received.bytes_mut());
        }
        received.end(self.ended);
        let sending = match self.sending {
            UringSending::Unsent(op) => DetachedSend::Unsent(Box::new(shared.outbox.unpack_unsent(op))),
            UringSending::Done => DetachedSend::Done,
            UringSending::Failed(error) => DetachedSend::Failed(io::Error::from_raw_os_error(error)),
            UringSending::Idle => DetachedSend::Idle,
            UringSending::Queued(_) | UringSending::InFlight(_) => {
                unreachable!("a stream leaves its driver when its sends have ended")
            }
        };
        DetachedStream {
            fd: self.fd,
            received,
            sending,
            awaits_room: self.watching_writable,
            reader: self.reader.into(),
            writer: self.writer.into(),
        }
    }

    /// A stream from another driver. [`go_on`](Self::go_on) continues its operations.
    pub(super) fn attached(mut stream: DetachedStream, shared: &mut UringShared) -> Self {
        let carried = std::mem::take(&mut stream.received).carry();
        let receiving = if carried.is_some() { UringReceiving::Carried } else { UringReceiving::Idle };
        let sending = match std::mem::take(&mut stream.sending) {
            DetachedSend::Idle => UringSending::Idle,
            DetachedSend::Unsent(outgoing) => UringSending::Unsent(shared.outbox.pack(*outgoing)),
            DetachedSend::Done => UringSending::Done,
            DetachedSend::Failed(error) => UringSending::Failed(error.raw_os_error().unwrap_or(libc::EIO)),
        };
        Self {
            fd: stream.fd.take(),
            phase: StreamPhase::Open,
            receiving,
            reads_directly: false,
            has_large_buffer: false,
            watching_writable: stream.awaits_room,
            parked: Parked::EMPTY,
            ended: None,
            carried,
            sending,
            reader: stream.reader.unpack(),
            writer: stream.writer.unpack(),
        }
    }

    /// Continues the operations of a stream that has just been attached.
    pub(super) fn go_on(&mut self, id: Id, shared: &mut UringShared) {
        self.sending = match std::mem::replace(&mut self.sending, UringSending::Idle) {
            UringSending::Unsent(op) => UringSending::InFlight(self.send_whole(id, op, shared)),
            sending => sending,
        };
        if std::mem::take(&mut self.watching_writable) {
            self.watch_writable(id, shared);
        }
        if self.reader.is_waiting() {
            match self.receiving {
                UringReceiving::Idle => self.arm_receive(id, shared),
                _ => self.reader.wake(),
            }
        }
    }
}

/// Queues a send of the rest of `op`.
#[allow(unsafe_code)]
#[inline]
fn send(op: &mut SendOp, socket: i32, attempt: SendForm, id: Id, shared: &mut UringShared) -> u64 {
    let operation = match attempt {
        SendForm::AtOnce => operation::SEND_AT_ONCE,
        SendForm::Whole => operation::SEND_WHOLE,
    };
    // SAFETY: the box goes into `UringSending::Queued` or `UringSending::InFlight`, which only the
    // completion or `settle` leaves, and a stream in one of these states stays in the table even
    // when closed.
    unsafe { shared.ring.send(socket, op, attempt, id.pack(operation)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_stream_is_small() {
        let bytes = size_of::<(u32, UringStream)>();
        assert!(bytes <= 128, "{bytes} bytes");
    }
}
