//! The epoll driver: try first, wait for edges.
//!
//! A descriptor is registered once; an accepted connection is registered at the first wait, and
//! modified once more if it ever has no room. Sockets are edge-triggered and keep their readiness
//! as flags. An operation is tried at once while the flag says that it may succeed. So a keep-alive
//! request costs a `recv`, a `send` and its share of `epoll_pwait`. The turn that learns of room
//! continues a blocked send, because the send's task may be waiting for the next request. Tested in
//! `tests/suite`.

mod busy;
mod stream;
mod wait;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use rustix::event::epoll::{self, EventData, EventFlags};

use crate::driver::detached::{Detached, DetachedListener, DetachedObject, DetachedSource};
use crate::driver::free_list::Spares;
use crate::driver::incoming::Inbox;
use crate::driver::table::{GenerationalTable, Id};
use crate::driver::waiter::Waiter;
use crate::error::{listener_closed, stale};
use crate::socket::accept_now;
use crate::{DriverOptions, IoError, ListenerKey, More, ObjectKey, SourceKey, StreamKey, Unparker};
use stream::{EpollStream, WatchedEvents};
use wait::EpollEvents;

/// The subject of an event; the top byte of the event's 64 bits.
mod kind {
    pub(super) const WAKER: u8 = 0;
    pub(super) const LISTENER: u8 = 1;
    pub(super) const STREAM: u8 = 2;
    pub(super) const SOURCE: u8 = 3;
}

/// Events of a connected socket. Room to send is watched only after a send was blocked, because a
/// UNIX socket reports room each time the peer has read, which would wake this core once more for
/// every request to such a peer.
const STREAM_EVENTS: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

/// Events of a socket that is connecting, or that was blocked once.
const ROOM_EVENTS: EventFlags = STREAM_EVENTS.union(EventFlags::OUT);

/// Exclusive, so that watchers of the listener on other cores are told only when this core is not
/// waiting.
const LISTENER_EVENTS: EventFlags = EventFlags::IN.union(EventFlags::ET).union(EventFlags::EXCLUSIVE);

struct EpollListener {
    /// `None` once closed.
    fd: Option<OwnedFd>,
    /// Whether accept may succeed.
    readable: bool,
    /// Connections accepted on closing.
    accepted: VecDeque<OwnedFd>,
    waiter: Waiter,
}

struct EpollSource {
    fd: OwnedFd,
    asking: SourceRegistration,
    input: EpollSourceSide,
    room: EpollSourceSide,
}

/// A direction of a source.
#[derive(Default)]
struct EpollSourceSide {
    ready: bool,
    waiter: Waiter,
}

impl EpollSourceSide {
    fn wakes(&mut self) {
        self.ready = true;
        self.waiter.wake();
    }
}

/// The registration of a source.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SourceRegistration {
    /// Renewed for each wait, which makes the source level-triggered.
    EachTime,
    /// Once, for edges that no earlier waiter in the queue has taken (`EPOLLEXCLUSIVE`, which
    /// cannot be renewed).
    Once,
}

pub(crate) struct Epoll {
    epoll: OwnedFd,
    events: EpollEvents,
    unparker: Unparker,
    listeners: GenerationalTable<EpollListener>,
    streams: GenerationalTable<EpollStream>,
    sources: GenerationalTable<EpollSource>,
    /// Objects that have left the driver, until the caller takes them.
    detached: VecDeque<(ObjectKey, Detached)>,
    inbox: Inbox,
    free_list: Spares,
}

impl Epoll {
    pub(crate) fn new(options: &DriverOptions) -> Result<Self, IoError> {
        let because = |step| move |source| IoError::Epoll { step, source };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|error| because("epoll_create")(error.into()))?;
        let unparker = Unparker::new().map_err(because("eventfd"))?;
        let bell = EventData::new_u64(Id { index: 0, generation: 0 }.pack(kind::WAKER));
        epoll::add(&epoll, unparker.as_fd(), bell, EventFlags::IN | EventFlags::ET)
            .map_err(|error| because("watching the eventfd")(error.into()))?;
        Ok(Self {
            epoll,
            events: EpollEvents::new(options.epoll_events),
            unparker,
            listeners: GenerationalTable::new(),
            streams: GenerationalTable::new(),
            free_list: Spares::default(),
            sources: GenerationalTable::new(),
            detached: VecDeque::new(),
            inbox: Inbox::new(options.recv_buffer_bytes),
        })
    }

    pub(crate) fn unparker(&self) -> Unparker {
        self.unparker.clone()
    }

    pub(crate) fn busy_poll(&mut self, up_to: Duration) -> io::Result<()> {
        busy::poll_for(self.epoll.as_fd(), up_to)
    }

    pub(crate) fn stream_count(&self) -> usize {
        self.streams.len()
    }

    pub(crate) fn turn(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let count = self.events.wait(self.epoll.as_fd(), timeout)?;
        for at in 0..count {
            let (flags, word) = self.events.get(at);
            let (kind, id) = Id::unpack(word);
            match kind {
                kind::STREAM => {
                    if let Some(stream) = self.streams.get_mut(id) {
                        stream.on_event(flags, &mut self.free_list);
                    }
                }
                kind::LISTENER => {
                    if let Some(listener) = self.listeners.get_mut(id) {
                        listener.readable = true;
                        listener.waiter.wake();
                    }
                }
                kind::SOURCE => {
                    if let Some(source) = self.sources.get_mut(id) {
                        source.on_event(flags);
                        if source.asks_again() {
                            // The event has ended the registration of the other direction, too.
                            let _ = source.ask_again(self.epoll.as_fd(), id);
                        }
                    }
                }
                _ => debug_assert_eq!(kind, kind::WAKER),
            }
        }
        Ok(count)
    }

    /// Registers `fd` under `id`.
    fn watch(&self, fd: BorrowedFd<'_>, kind: u8, id: Id, events: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(id.pack(kind)), events)?)
    }

    pub(crate) fn add_listener(&mut self, fd: OwnedFd) -> io::Result<ListenerKey> {
        let listener = EpollListener {
            fd: Some(fd),
            readable: true,
            accepted: VecDeque::new(),
            waiter: Waiter::default(),
        };
        self.insert_listener(listener)
    }

    fn insert_listener(&mut self, listener: EpollListener) -> io::Result<ListenerKey> {
        let id = self.listeners.insert(listener);
        let fd = self.listeners.get(id).and_then(|listener| listener.fd.as_ref());
        if let Some(fd) = fd
            && let Err(error) = self.watch(fd.as_fd(), kind::LISTENER, id, LISTENER_EVENTS)
        {
            if let Some(mut listener) = self.listeners.remove(id) {
                listener.waiter.wake();
            }
            return Err(error);
        }
        Ok(ListenerKey(id))
    }

    pub(crate) fn accepted_count(&self, key: ListenerKey) -> usize {
        self.listeners.get(key.0).map_or(0, |listener| listener.accepted.len())
    }

    pub(crate) fn poll_accept(
        &mut self,
        cx: &mut Context<'_>,
        key: ListenerKey,
    ) -> Poll<io::Result<OwnedFd>> {
        let Some(listener) = self.listeners.get_mut(key.0) else {
            return Poll::Ready(Err(listener_closed()));
        };
        if let Some(fd) = listener.accepted.pop_front() {
            return Poll::Ready(Ok(fd));
        }
        let Some(fd) = &listener.fd else {
            self.listeners.remove(key.0);
            return Poll::Ready(Err(listener_closed()));
        };
        if listener.readable {
            match accept_now(fd.as_fd()).transpose() {
                Some(result) => return Poll::Ready(result),
                None => listener.readable = false,
            }
        }
        listener.waiter.wait(cx);
        Poll::Pending
    }

    pub(crate) fn close_listener(&mut self, key: ListenerKey) {
        let Some(listener) = self.listeners.get_mut(key.0) else { return };
        let Some(fd) = listener.fd.take() else { return };
        // Closing is not enough while another process holds the socket, because this epoll set
        // would still get events.
        let _ = epoll::delete(&self.epoll, &fd);
        while let Ok(Some(connection)) = accept_now(fd.as_fd()) {
            listener.accepted.push_back(connection);
        }
        listener.waiter.wake();
    }

    pub(crate) fn discard_listener(&mut self, key: ListenerKey) {
        if let Some(EpollListener { fd: Some(fd), .. }) = self.listeners.remove(key.0) {
            // As above.
            let _ = epoll::delete(&self.epoll, &fd);
        }
    }

    pub(crate) fn listener_fd(&self, key: ListenerKey) -> Option<BorrowedFd<'_>> {
        self.listeners.get(key.0)?.fd.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn add_stream(&mut self, fd: OwnedFd) -> io::Result<StreamKey> {
        Ok(StreamKey(self.streams.insert(EpollStream::new(fd))))
    }

    pub(crate) fn add_connecting(&mut self, fd: OwnedFd) -> io::Result<StreamKey> {
        self.add_watched(EpollStream::connecting(fd), WatchedEvents::InputAndRoom)
    }

    pub(crate) fn add_connected(&mut self, fd: OwnedFd) -> io::Result<StreamKey> {
        self.add_watched(EpollStream::new(fd), WatchedEvents::Input)
    }

    fn add_watched(&mut self, stream: EpollStream, watched: WatchedEvents) -> io::Result<StreamKey> {
        let id = self.streams.insert(stream);
        let stream = self.streams.get_mut(id).expect("just inserted");
        if let Err(error) = watch_stream(self.epoll.as_fd(), id, stream, watched) {
            if let Some(stream) = self.streams.remove(id) {
                stream.close_unwatched();
            }
            return Err(error);
        }
        Ok(StreamKey(id))
    }

    pub(crate) fn poll_connected(&mut self, cx: &mut Context<'_>, key: StreamKey) -> Poll<io::Result<()>> {
        self.streams.get_mut(key.0).ok_or_else(|| stale("stream"))?.poll_connected(cx)
    }

    #[inline]
    pub(crate) fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        key: StreamKey,
        buf: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        let Some(stream) = self.streams.get_mut(key.0) else {
            return Poll::Ready(Err(stale("stream")));
        };
        let received = stream.poll_recv(cx, buf, &mut self.inbox);
        if received.is_pending() && stream.watched() == WatchedEvents::Nothing {
            watch_stream(self.epoll.as_fd(), key.0, stream, WatchedEvents::Input)?;
        }
        received
    }

    #[inline]
    pub(crate) fn start_send(
        &mut self,
        key: StreamKey,
        head: Vec<u8>,
        body: Bytes,
        more: More,
    ) -> io::Result<()> {
        if let Some(stream) = self.streams.get_mut(key.0) {
            stream.start_send(head, body, more, &mut self.free_list)?;
            if stream.misses_room()
                && let Err(error) =
                    watch_stream(self.epoll.as_fd(), key.0, stream, WatchedEvents::InputAndRoom)
            {
                stream.fail_send(error);
            }
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn poll_sent(&mut self, cx: &mut Context<'_>, key: StreamKey) -> Poll<io::Result<Vec<u8>>> {
        match self.streams.get_mut(key.0) {
            Some(stream) => stream.poll_sent(cx, &mut self.free_list),
            None => Poll::Ready(Err(stale("stream"))),
        }
    }

    pub(crate) fn poll_sendfile(
        &mut self,
        cx: &mut Context<'_>,
        key: StreamKey,
        file: BorrowedFd<'_>,
        offset: &mut u64,
        count: usize,
    ) -> Poll<io::Result<usize>> {
        let Some(stream) = self.streams.get_mut(key.0) else {
            return Poll::Ready(Err(stale("stream")));
        };
        let sent = stream.poll_sendfile(cx, file, offset, count);
        if stream.misses_room() {
            watch_stream(self.epoll.as_fd(), key.0, stream, WatchedEvents::InputAndRoom)?;
        }
        sent
    }

    pub(crate) fn shutdown_write(&mut self, key: StreamKey) -> io::Result<()> {
        self.streams.get_mut(key.0).ok_or_else(|| stale("stream"))?.shutdown_write()
    }

    /// Closing the descriptor removes it from the epoll set; an event already fetched finds a stale
    /// id.
    pub(crate) fn close_stream(&mut self, key: StreamKey) {
        if let Some(stream) = self.streams.remove(key.0) {
            stream.close();
        }
    }

    /// Never pending: an unfetched event of the stream finds a stale id, and the bytes are still in
    /// the socket.
    pub(crate) fn poll_release(
        &mut self,
        _: &mut Context<'_>,
        key: StreamKey,
    ) -> Poll<io::Result<Option<OwnedFd>>> {
        let stream = self.streams.get(key.0).ok_or_else(|| stale("stream"))?;
        if !stream.is_idle() {
            return Poll::Ready(Ok(None));
        }
        if stream.watched() != WatchedEvents::Nothing {
            epoll::delete(&self.epoll, stream.fd())?;
        }
        Poll::Ready(Ok(self.streams.remove(key.0).map(EpollStream::into_fd)))
    }

    pub(crate) fn stream_fd(&self, key: StreamKey) -> Option<BorrowedFd<'_>> {
        self.streams.get(key.0).map(EpollStream::fd)
    }

    pub(crate) fn add_source(&mut self, fd: OwnedFd) -> io::Result<SourceKey> {
        // One shot, and nothing watched yet.
        self.ask(fd, SourceRegistration::EachTime, EventFlags::ONESHOT)
    }

    pub(crate) fn add_watch(&mut self, fd: OwnedFd) -> io::Result<SourceKey> {
        self.ask(fd, SourceRegistration::Once, LISTENER_EVENTS)
    }

    fn ask(&mut self, fd: OwnedFd, asking: SourceRegistration, events: EventFlags) -> io::Result<SourceKey> {
        let (input, room) = Default::default();
        let id = self.sources.insert(EpollSource { fd, asking, input, room });
        let fd = self.sources.get(id).expect("just inserted").fd.as_fd();
        if let Err(error) = self.watch(fd, kind::SOURCE, id, events) {
            self.sources.remove(id);
            return Err(error);
        }
        Ok(SourceKey(id))
    }

    pub(crate) fn poll_readable(&mut self, cx: &mut Context<'_>, key: SourceKey) -> Poll<io::Result<()>> {
        self.poll_source(cx, key, |source| &mut source.input)
    }

    pub(crate) fn poll_writable(&mut self, cx: &mut Context<'_>, key: SourceKey) -> Poll<io::Result<()>> {
        self.poll_source(cx, key, |source| &mut source.room)
    }

    fn poll_source(
        &mut self,
        cx: &mut Context<'_>,
        key: SourceKey,
        side: fn(&mut EpollSource) -> &mut EpollSourceSide,
    ) -> Poll<io::Result<()>> {
        let Some(source) = self.sources.get_mut(key.0) else {
            return Poll::Ready(Err(stale("source")));
        };
        let waits = side(source);
        if std::mem::take(&mut waits.ready) {
            return Poll::Ready(Ok(()));
        }
        let asks = !waits.waiter.is_waiting();
        waits.waiter.wait(cx);
        if asks && source.asks_again() {
            source.ask_again(self.epoll.as_fd(), key.0)?;
        }
        Poll::Pending
    }

    pub(crate) fn source_fd(&self, key: SourceKey) -> Option<BorrowedFd<'_>> {
        self.sources.get(key.0).map(|source| source.fd.as_fd())
    }

    pub(crate) fn close_source(&mut self, key: SourceKey) {
        if let Some(source) = self.sources.remove(key.0) {
            // As for a listener: another process may hold the descriptor.
            let _ = epoll::delete(&self.epoll, &source.fd);
        }
    }
}

impl EpollSource {
    fn on_event(&mut self, flags: EventFlags) {
        let broken = EventFlags::HUP | EventFlags::ERR;
        if flags.intersects(EventFlags::IN | broken) {
            self.input.wakes();
        }
        if flags.intersects(EventFlags::OUT | broken) {
            self.room.wakes();
        }
    }

    /// Whether a task waits for an event that is asked for each time.
    fn asks_again(&self) -> bool {
        let waits = self.input.waiter.is_waiting() || self.room.waiter.is_waiting();
        self.asking == SourceRegistration::EachTime && waits
    }

    fn ask_again(&self, epoll: BorrowedFd<'_>, id: Id) -> io::Result<()> {
        let mut events = EventFlags::ONESHOT;
        if self.input.waiter.is_waiting() {
            events |= EventFlags::IN;
        }
        if self.room.waiter.is_waiting() {
            events |= EventFlags::OUT;
        }
        Ok(epoll::modify(epoll, &self.fd, EventData::new_u64(id.pack(kind::SOURCE)), events)?)
    }
}

impl Epoll {
    pub(crate) fn detach(&mut self, key: ObjectKey) -> bool {
        let object = match key {
            ObjectKey::Stream(StreamKey(id)) => self.streams.remove(id).map(|stream| {
                if stream.watched() != WatchedEvents::Nothing {
                    let _ = epoll::delete(&self.epoll, stream.fd());
                }
                DetachedObject::Stream(stream.into_detached())
            }),
            ObjectKey::Listener(ListenerKey(id)) => self.listeners.remove(id).map(|listener| {
                let EpollListener { fd, accepted, waiter, .. } = listener;
                if let Some(fd) = &fd {
                    let _ = epoll::delete(&self.epoll, fd);
                }
                let waiter = waiter.into();
                DetachedObject::Listener(DetachedListener { fd, accepted, failed: None, waiter })
            }),
            ObjectKey::Source(SourceKey(id)) => self.sources.remove(id).map(|source| {
                let EpollSource { fd, asking, input, room } = source;
                let _ = epoll::delete(&self.epoll, &fd);
                let is_watch = asking == SourceRegistration::Once;
                DetachedObject::Source(DetachedSource {
                    fd,
                    is_watch,
                    reader: input.waiter.into(),
                    writer: room.waiter.into(),
                })
            }),
        };
        let Some(object) = object else { return false };
        self.detached.push_back((key, Detached(object)));
        true
    }

    pub(crate) fn take_detached(&mut self) -> Option<(ObjectKey, Detached)> {
        self.detached.pop_front()
    }

    pub(crate) fn attach(&mut self, object: DetachedObject) -> io::Result<ObjectKey> {
        match object {
            DetachedObject::Stream(stream) => {
                let (stream, watched) = EpollStream::attached(stream);
                let key = match watched {
                    WatchedEvents::Nothing => StreamKey(self.streams.insert(stream)),
                    watched => self.add_watched(stream, watched)?,
                };
                Ok(ObjectKey::Stream(key))
            }
            DetachedObject::Listener(listener) => self.attach_listener(listener).map(ObjectKey::Listener),
            DetachedObject::Source(source) => self.attach_source(source).map(ObjectKey::Source),
        }
    }

    fn attach_listener(&mut self, listener: DetachedListener) -> io::Result<ListenerKey> {
        let DetachedListener { fd, accepted, failed: _, mut waiter } = listener;
        let mut waiter = waiter.unpack();
        if !accepted.is_empty() || fd.is_none() {
            waiter.wake();
        }
        self.insert_listener(EpollListener { fd, readable: true, accepted, waiter })
    }

    fn attach_source(&mut self, source: DetachedSource) -> io::Result<SourceKey> {
        let DetachedSource { fd, is_watch, mut reader, mut writer } = source;
        let key = if is_watch { self.add_watch(fd)? } else { self.add_source(fd)? };
        let source = self.sources.get_mut(key.0).expect("just inserted");
        source.input.waiter = reader.unpack();
        source.room.waiter = writer.unpack();
        if source.asks_again()
            && let Err(error) = source.ask_again(self.epoll.as_fd(), key.0)
        {
            source.input.waiter.wake();
            source.room.waiter.wake();
            self.sources.remove(key.0);
            return Err(error);
        }
        Ok(key)
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        self.streams.iter_mut().for_each(|(_, stream)| stream.before_close());
    }
}

/// Makes the kernel report more events of a stream from now on, including present readiness.
fn watch_stream(
    epoll: BorrowedFd<'_>,
    id: Id,
    stream: &mut EpollStream,
    watched: WatchedEvents,
) -> io::Result<()> {
    let events = if watched == WatchedEvents::InputAndRoom { ROOM_EVENTS } else { STREAM_EVENTS };
    let data = EventData::new_u64(id.pack(kind::STREAM));
    match stream.watched() {
        WatchedEvents::Nothing => epoll::add(epoll, stream.fd(), data, events)?,
        WatchedEvents::Input | WatchedEvents::InputAndRoom => {
            epoll::modify(epoll, stream.fd(), data, events)?
        }
    }
    stream.set_watched(watched);
    Ok(())
}
