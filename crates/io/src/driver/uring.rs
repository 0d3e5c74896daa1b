//! The io_uring driver: all queued operations leave, and all completions arrive, with one system
//! call per turn.
//!
//! Contains the turn, the tables and the meaning of each completion. Streams receive by multishot
//! operations from shared buffers. The kernel executes a send while it takes the send from the
//! queue, without waiting and, on full success, without a completion. So once an entry is consumed
//! and no completion is there, the send is done (`Uring::settle`). Therefore a turn that submits
//! sends can wait for *events* in the same call, because completions of the turn's own sends would
//! end the wait at once. A send that did not fit is repeated as an operation that completes when
//! every byte is taken. Kernel: Linux 6.1 or later; `selftest` tries every operation. Tested in
//! `tests/suite`.

mod buffers;
mod close_reason;
mod listener;
mod outbox;
mod ring;
mod selftest;
mod source;
mod speculative_recv;
mod stream;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;

use crate::driver::detached::{Detached, DetachedObject};
use crate::driver::free_list::Spares;
use crate::driver::incoming::Inbox;
use crate::driver::table::{GenerationalTable, Id};
use crate::error::{listener_closed, stale};
use crate::{DriverOptions, IoError, ListenerKey, More, ObjectKey, SourceKey, StreamKey, Unparker};
use buffers::Buffers;
use listener::{NextConnection, UringListener};
use outbox::Outbox;
use ring::{Completion, Ring, RingWait};
use source::{UringSource, add_allowed};
use speculative_recv::SpeculativeRecv;
use stream::{StreamFate, StreamRelease, UringStream};

/// The subject of a completion; the top byte of its 64 bits.
mod operation {
    /// Another thread woke the driver.
    pub(super) const WAKER: u8 = 0;
    /// A connection was accepted.
    pub(super) const ACCEPT: u8 = 1;
    /// Bytes arrived in a shared buffer.
    pub(super) const RECEIVE: u8 = 2;
    /// A stream without shared buffers can be read.
    pub(super) const READABLE: u8 = 3;
    /// A non-blocking send was not taken, or not completely.
    pub(super) const SEND_AT_ONCE: u8 = 4;
    /// A whole send has ended.
    pub(super) const SEND_WHOLE: u8 = 5;
    /// A stream has room for sendfile, or its connection is established.
    pub(super) const WRITABLE: u8 = 6;
    /// A source can be read.
    pub(super) const SOURCE: u8 = 7;
    /// A cancellation or close, silent on success, because no code needs the result.
    pub(super) const SILENT: u8 = 8;
    /// A source has room.
    pub(super) const SOURCE_ROOM: u8 = 9;

    /// Whether the ring counts the operation as in flight.
    pub(super) fn is_counted(operation: u8) -> bool {
        !matches!(operation, SEND_AT_ONCE | SILENT)
    }
}

/// The user data of operations without an id.
const NOBODY: Id = Id { index: 0, generation: 0 };

/// The state that the operations of all descriptors share. The ring comes first, because it must be
/// dropped before the buffers.
struct UringShared {
    ring: Ring,
    buffers: Buffers,
    outbox: Outbox,
    free_list: Spares,
    /// For receiving without shared buffers.
    inbox: Inbox,
    speculative_recv: SpeculativeRecv,
    /// Undecided non-blocking sends: the count of entries pushed with each, and the stream.
    queued: VecDeque<(u64, Id)>,
    /// Whether a task, or a stream that closes, waits for one of these sends.
    awaited: bool,
    /// Streams that held too many buffers when a completion arrived.
    over_budget: Vec<Id>,
    parked_max: u16,
    accepted_max: usize,
}

impl UringShared {
    /// The maximum number of bytes that a stream may hold in shared buffers, except for a burst.
    fn parked_bytes_max(&self) -> usize {
        usize::from(self.parked_max) * self.inbox.bytes()
    }
}

pub(crate) struct Uring {
    shared: UringShared,
    unparker: Unparker,
    listeners: GenerationalTable<UringListener>,
    streams: GenerationalTable<UringStream>,
    sources: GenerationalTable<UringSource>,
    /// Objects that have left the driver, until the caller takes them.
    detached: VecDeque<(ObjectKey, Detached)>,
    /// Completions being dispatched; kept for the memory.
    batch: Vec<Completion>,
    /// The kernel may have deferred work without notice, because the kernel does a limited amount
    /// per call.
    behind: bool,
}

/// Operations that the kernel completes in a call at least, before it defers the rest
/// (`IO_LOCAL_TW_DEFAULT_MAX` of Linux). A single operation may accept all waiting connections of a
/// listener. If the rest waited for the next turn, connections would arrive faster than the server
/// serves them, until none is served in time.
const KERNEL_BATCH: usize = 20;

/// Completions of a turn after which the rest waits for the next turn; the rest also waits when
/// receive buffers run short. As many as epoll returns.
const COMPLETIONS_MAX: usize = 512;

impl Uring {
    /// A driver, after the process's self-test has passed.
    pub(crate) fn tested(options: &DriverOptions) -> Result<Self, IoError> {
        selftest::passed()?;
        Self::new(options)
    }

    fn new(options: &DriverOptions) -> Result<Self, IoError> {
        let because = |step| move |source| IoError::Uring { step, source };
        let ring = Ring::new(options.ring_entries.max(8)).map_err(because("setup refused"))?;
        let buffers = Buffers::new(&ring, options.recv_buffers, options.recv_buffer_bytes)
            .map_err(because("buffer ring refused"))?;
        let unparker = Unparker::new().map_err(because("eventfd"))?;
        let shared = UringShared {
            ring,
            buffers,
            outbox: Outbox::new(),
            free_list: Spares::default(),
            inbox: Inbox::new(options.recv_buffer_bytes),
            speculative_recv: SpeculativeRecv::default(),
            queued: VecDeque::new(),
            awaited: false,
            over_budget: Vec::new(),
            parked_max: options.recv_parked_max.max(1),
            accepted_max: options.accept_backlog_max.max(1),
        };
        let mut uring = Self {
            shared,
            unparker,
            listeners: GenerationalTable::new(),
            streams: GenerationalTable::new(),
            sources: GenerationalTable::new(),
            detached: VecDeque::new(),
            batch: Vec::new(),
            behind: false,
        };
        uring.watch_waker();
        Ok(uring)
    }

    pub(crate) fn description(&self) -> String {
        "io_uring (multishot accept, multishot receive, buffer rings)".to_owned()
    }

    fn watch_waker(&mut self) {
        self.shared.ring.poll_always(self.unparker.as_fd().as_raw_fd(), NOBODY.pack(operation::WAKER));
    }

    pub(crate) fn unparker(&self) -> Unparker {
        self.unparker.clone()
    }

    pub(crate) fn busy_poll(&mut self, up_to: Duration) -> io::Result<()> {
        self.shared.ring.busy_poll(up_to)
    }

    pub(crate) fn has_unsubmitted(&self) -> bool {
        self.shared.ring.has_unsubmitted()
    }

    pub(crate) fn stream_count(&self) -> usize {
        self.streams.len()
    }

    pub(crate) fn turn(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        self.suspend_over_budget();
        let ring = &mut self.shared.ring;
        let wait = match timeout {
            Some(Duration::ZERO) => RingWait::No,
            _ if self.shared.awaited || ring.has_completions() => RingWait::No,
            timeout => RingWait::First(timeout),
        };
        if wait != RingWait::No || self.behind || ring.has_unsubmitted() || ring.has_kernel_work() {
            ring.enter(wait)?;
        }
        let mut came = self.dispatch();
        let mut count = came;
        // `settle` takes silence for success, so no completion may stay unread: neither a
        // completion that did not fit into the queue nor a completion that arrived when dispatching
        // had to submit early.
        loop {
            self.behind = came >= KERNEL_BATCH;
            let goes_on = self.behind && count < COMPLETIONS_MAX && !self.shared.buffers.are_short();
            if self.shared.ring.has_overflowed() || goes_on {
                self.shared.ring.enter(RingWait::No)?;
            } else if !self.shared.ring.has_completions() {
                break;
            }
            came = self.dispatch();
            count += came;
        }
        Ok(count + self.settle())
    }

    /// Suspends receiving for streams whose tasks did not read the bytes that had arrived before
    /// this turn.
    fn suspend_over_budget(&mut self) {
        while let Some(id) = self.shared.over_budget.pop() {
            if let Some(stream) = self.streams.get_mut(id) {
                stream.suspend_if_over_budget(id, &mut self.shared);
            }
        }
    }

    fn dispatch(&mut self) -> usize {
        let mut batch = std::mem::take(&mut self.batch);
        self.shared.ring.collect(&mut batch);
        let count = batch.len();
        for completion in batch.drain(..) {
            self.on_completion(completion);
        }
        self.batch = batch;
        count
    }

    fn on_completion(&mut self, completion: Completion) {
        let (operation, id) = Id::unpack(completion.user_data);
        if !completion.goes_on() && operation::is_counted(operation) {
            self.shared.ring.landed();
        }
        match operation {
            operation::RECEIVE => self.on_received(id, completion),
            operation::ACCEPT => {
                if let Some(listener) = self.listeners.get_mut(id) {
                    let fate = listener.on_accepted(id, completion, &mut self.shared);
                    self.end_listener(id, fate);
                }
            }
            operation::SEND_AT_ONCE | operation::SEND_WHOLE => self.on_sent(id, completion.result),
            operation::READABLE => {
                if let Some(stream) = self.streams.get_mut(id) {
                    stream.on_readable();
                }
            }
            operation::WRITABLE => {
                if let Some(stream) = self.streams.get_mut(id) {
                    stream.on_writable();
                }
            }
            operation::SOURCE => {
                if let Some(source) = self.sources.get_mut(id) {
                    source.on_ready();
                }
            }
            operation::SOURCE_ROOM => {
                if let Some(source) = self.sources.get_mut(id) {
                    source.on_room();
                }
            }
            operation::WAKER if !completion.goes_on() => self.watch_waker(),
            _ => {}
        }
    }

    fn on_received(&mut self, id: Id, completion: Completion) {
        match self.streams.get_mut(id) {
            Some(stream) => {
                let fate = stream.on_received(id, completion, &mut self.shared);
                self.end_stream(id, fate);
            }
            None => {
                if let Some(buffer) = completion.buffer() {
                    self.shared.buffers.discard(buffer);
                }
            }
        }
    }

    fn on_sent(&mut self, id: Id, result: i32) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        let fate = stream.on_sent(id, result, &mut self.shared);
        self.end_stream(id, fate);
    }

    /// Marks as done the non-blocking sends that were consumed without an error completion. Returns
    /// 1 if a task waited for some of them.
    fn settle(&mut self) -> usize {
        let consumed = self.shared.ring.consumed();
        let mut settled = false;
        while let Some(&(pushed, id)) = self.shared.queued.front()
            && pushed <= consumed
        {
            self.shared.queued.pop_front();
            settled = true;
            if let Some(stream) = self.streams.get_mut(id) {
                let fate = stream.settle(&mut self.shared);
                self.end_stream(id, fate);
            }
        }
        let told = settled && self.shared.awaited;
        self.shared.awaited &= !self.shared.queued.is_empty();
        usize::from(told)
    }

    /// Removes a stream that is closed or leaves.
    #[inline]
    fn end_stream(&mut self, id: Id, fate: StreamFate) {
        if fate == StreamFate::Stays {
            return;
        }
        if let Some(stream) = self.streams.remove(id)
            && fate == StreamFate::Leaves
        {
            let stream = stream.into_detached(&mut self.shared);
            let key = ObjectKey::Stream(StreamKey(id));
            self.detached.push_back((key, Detached(DetachedObject::Stream(stream))));
        }
    }

    /// Removes a listener that is closed or leaves.
    fn end_listener(&mut self, id: Id, fate: StreamFate) {
        if fate == StreamFate::Stays {
            return;
        }
        if let Some(listener) = self.listeners.remove(id)
            && fate == StreamFate::Leaves
        {
            let key = ObjectKey::Listener(ListenerKey(id));
            self.detached.push_back((key, Detached(DetachedObject::Listener(listener.into_detached()))));
        }
    }

    pub(crate) fn detach(&mut self, key: ObjectKey) -> bool {
        match key {
            ObjectKey::Stream(StreamKey(id)) => match self.open_stream(StreamKey(id)) {
                Ok((stream, shared)) => {
                    let fate = stream.detach(id, shared);
                    self.end_stream(id, fate);
                    true
                }
                Err(_) => false,
            },
            ObjectKey::Listener(ListenerKey(id)) => match self.listeners.get_mut(id) {
                Some(listener) => {
                    let fate = listener.detach(id, &mut self.shared);
                    self.end_listener(id, fate);
                    true
                }
                None => false,
            },
            ObjectKey::Source(SourceKey(id)) => match self.sources.remove(id) {
                Some(source) => {
                    let source = source.into_detached(id, &mut self.shared.ring);
                    self.detached.push_back((key, Detached(DetachedObject::Source(source))));
                    true
                }
                None => false,
            },
        }
    }

    pub(crate) fn take_detached(&mut self) -> Option<(ObjectKey, Detached)> {
        self.detached.pop_front()
    }

    pub(crate) fn attach(&mut self, object: DetachedObject) -> io::Result<ObjectKey> {
        let shared = &mut self.shared;
        Ok(match object {
            DetachedObject::Stream(stream) => {
                let stream = UringStream::attached(stream, shared);
                let id = self.streams.insert(stream);
                self.streams.get_mut(id).expect("just inserted").go_on(id, shared);
                ObjectKey::Stream(StreamKey(id))
            }
            DetachedObject::Listener(listener) => {
                let id = self.listeners.insert(UringListener::attached(listener));
                self.listeners.get_mut(id).expect("just inserted").go_on(id, shared);
                ObjectKey::Listener(ListenerKey(id))
            }
            DetachedObject::Source(source) => {
                let id = self.sources.insert(UringSource::attached(source));
                self.sources.get_mut(id).expect("just inserted").go_on(id, &mut shared.ring);
                ObjectKey::Source(SourceKey(id))
            }
        })
    }

    pub(crate) fn add_listener(&mut self, fd: OwnedFd) -> io::Result<ListenerKey> {
        Ok(ListenerKey(self.listeners.insert(UringListener::new(fd))))
    }

    pub(crate) fn listener_fd(&self, key: ListenerKey) -> Option<BorrowedFd<'_>> {
        self.listeners.get(key.0).and_then(UringListener::fd)
    }

    pub(crate) fn accepted_count(&self, key: ListenerKey) -> usize {
        self.listeners.get(key.0).map_or(0, UringListener::accepted_count)
    }

    pub(crate) fn poll_accept(
        &mut self,
        cx: &mut Context<'_>,
        key: ListenerKey,
    ) -> Poll<io::Result<OwnedFd>> {
        let Some(listener) = self.listeners.get_mut(key.0) else {
            return Poll::Ready(Err(listener_closed()));
        };
        match listener.poll_accept(key.0, cx, &mut self.shared) {
            NextConnection::Accepted(fd) => Poll::Ready(Ok(fd)),
            NextConnection::Failed(error) => Poll::Ready(Err(error)),
            NextConnection::Later => Poll::Pending,
            NextConnection::Never => {
                self.listeners.remove(key.0);
                Poll::Ready(Err(listener_closed()))
            }
        }
    }

    pub(crate) fn close_listener(&mut self, key: ListenerKey) {
        if let Some(listener) = self.listeners.get_mut(key.0) {
            listener.close(key.0, &mut self.shared);
        }
    }

    pub(crate) fn discard_listener(&mut self, key: ListenerKey) {
        if let Some(listener) = self.listeners.get_mut(key.0)
            && listener.discard(key.0, &mut self.shared).is_gone()
        {
            self.listeners.remove(key.0);
        }
    }

    pub(crate) fn add_stream(&mut self, fd: OwnedFd) -> io::Result<StreamKey> {
        Ok(StreamKey(self.streams.insert(UringStream::new(fd))))
    }

    pub(crate) fn resume_stream(&mut self, fd: OwnedFd) -> io::Result<StreamKey> {
        Ok(StreamKey(self.streams.insert(UringStream::resumed(fd))))
    }

    pub(crate) fn add_connected(&mut self, fd: OwnedFd) -> io::Result<StreamKey> {
        Ok(StreamKey(self.streams.insert(UringStream::made_here(fd))))
    }

    pub(crate) fn add_connecting(&mut self, fd: OwnedFd) -> io::Result<StreamKey> {
        let key = self.add_connected(fd)?;
        let (stream, shared) = self.open_stream(key)?;
        stream.watch_writable(key.0, shared);
        Ok(key)
    }

    pub(crate) fn poll_connected(&mut self, cx: &mut Context<'_>, key: StreamKey) -> Poll<io::Result<()>> {
        self.open_stream(key)?.0.poll_connected(cx)
    }

    /// The stream of a key and the shared state, unless the stream is closed.
    #[inline]
    fn open_stream(&mut self, key: StreamKey) -> io::Result<(&mut UringStream, &mut UringShared)> {
        match self.streams.get_mut(key.0) {
            Some(stream) if stream.is_open() => Ok((stream, &mut self.shared)),
            _ => Err(stale("stream")),
        }
    }

    #[inline]
    pub(crate) fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        key: StreamKey,
        buf: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        let (stream, shared) = self.open_stream(key)?;
        stream.poll_recv(key.0, cx, buf, shared)
    }

    pub(crate) fn try_recv(&mut self, key: StreamKey, buf: &mut Vec<u8>) -> io::Result<Option<usize>> {
        let (stream, shared) = self.open_stream(key)?;
        if let Some(answer) = stream.try_recv(buf, shared) {
            return answer.map(Some);
        }
        // A receive that was armed before the last turn has reported the bytes of that time. A
        // later receive has not begun, or nothing has looked at its completion yet.
        let is_new = shared.ring.has_unsubmitted_receive() || shared.ring.has_completions();
        if !stream.is_armed() || !is_new {
            return Ok(None);
        }
        self.turn(Some(Duration::ZERO))?;
        match self.open_stream(key) {
            Ok((stream, shared)) => stream.try_recv(buf, shared).transpose(),
            Err(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    #[inline]
    pub(crate) fn start_send(
        &mut self,
        key: StreamKey,
        head: Vec<u8>,
        body: Bytes,
        more: More,
    ) -> io::Result<()> {
        match self.open_stream(key) {
            Ok((stream, shared)) => stream.start_send(key.0, head, body, more, shared),
            Err(_) => Ok(()),
        }
    }

    #[inline]
    pub(crate) fn poll_sent(&mut self, cx: &mut Context<'_>, key: StreamKey) -> Poll<io::Result<Vec<u8>>> {
        let (stream, shared) = self.open_stream(key)?;
        stream.poll_sent(cx, shared)
    }

    pub(crate) fn poll_sendfile(
        &mut self,
        cx: &mut Context<'_>,
        key: StreamKey,
        file: BorrowedFd<'_>,
        offset: &mut u64,
        count: usize,
    ) -> Poll<io::Result<usize>> {
        let (stream, shared) = self.open_stream(key)?;
        match stream.sendfile(file, offset, count)? {
            Some(sent) => Poll::Ready(Ok(sent)),
            None => {
                stream.wait_writable(key.0, cx, shared);
                Poll::Pending
            }
        }
    }

    pub(crate) fn shutdown_write(&mut self, key: StreamKey) -> io::Result<()> {
        let (stream, _) = self.open_stream(key)?;
        stream.shutdown_write()
    }

    pub(crate) fn close_stream(&mut self, key: StreamKey) {
        let Ok((stream, shared)) = self.open_stream(key) else { return };
        if stream.close(key.0, shared).is_gone() {
            self.streams.remove(key.0);
        }
    }

    pub(crate) fn poll_release(
        &mut self,
        cx: &mut Context<'_>,
        key: StreamKey,
    ) -> Poll<io::Result<Option<OwnedFd>>> {
        let (stream, shared) = self.open_stream(key)?;
        match stream.release(key.0, cx, shared) {
            StreamRelease::Now => Poll::Ready(Ok(self.streams.remove(key.0).and_then(UringStream::into_fd))),
            StreamRelease::Later => Poll::Pending,
            StreamRelease::Not => Poll::Ready(Ok(None)),
        }
    }

    pub(crate) fn stream_fd(&self, key: StreamKey) -> Option<BorrowedFd<'_>> {
        self.streams.get(key.0).and_then(UringStream::fd)
    }

    pub(crate) fn add_source(&mut self, fd: OwnedFd) -> io::Result<SourceKey> {
        add_allowed(fd.as_fd())?;
        Ok(SourceKey(self.sources.insert(UringSource::new(fd))))
    }

    pub(crate) fn poll_readable(&mut self, cx: &mut Context<'_>, key: SourceKey) -> Poll<io::Result<()>> {
        match self.sources.get_mut(key.0) {
            Some(source) => source.poll_readable(key.0, cx, &mut self.shared.ring).map(Ok),
            None => Poll::Ready(Err(stale("source"))),
        }
    }

    pub(crate) fn poll_writable(&mut self, cx: &mut Context<'_>, key: SourceKey) -> Poll<io::Result<()>> {
        match self.sources.get_mut(key.0) {
            Some(source) => source.poll_writable(key.0, cx, &mut self.shared.ring).map(Ok),
            None => Poll::Ready(Err(stale("source"))),
        }
    }

    pub(crate) fn source_fd(&self, key: SourceKey) -> Option<BorrowedFd<'_>> {
        self.sources.get(key.0).map(UringSource::fd)
    }

    pub(crate) fn close_source(&mut self, key: SourceKey) {
        if let Some(source) = self.sources.remove(key.0) {
            source.close(key.0, &mut self.shared.ring);
        }
    }
}
