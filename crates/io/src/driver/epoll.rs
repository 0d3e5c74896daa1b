//! The epoll driver: try first, wait for edges.
//!
//! Sockets are edge-triggered, and the driver keeps their readiness as flags. The driver tries an
//! operation at once while the flag says that the operation may succeed. So a keep-alive request
//! costs a `recv`, a `send` and a share of `epoll_pwait2`. An accepted connection is registered at
//! its first wait, because a connection with a single request seldom waits. The registration is
//! modified once, at the first send that finds no room. The turn that learns of room continues the
//! blocked send, because the send's task may be waiting for the next request.
//!
//! Reading order: `stream` (sockets), `source` (other descriptors), `wait` and `busy` (the system
//! calls). Tested in `tests/suite`.

mod busy;
mod source;
mod stream;
mod wait;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use rustix::event::epoll::{self, EventData, EventFlags};

use crate::driver::detached::{Detached, DetachedListener, DetachedObject};
use crate::driver::free_list::Spares;
use crate::driver::incoming::Inbox;
use crate::driver::table::{GenerationalTable, Id};
use crate::driver::waiter::Waiter;
use crate::error::{listener_closed, stale};
use crate::socket::accept_now;
use crate::{DriverOptions, IoError, ListenerKey, More, ObjectKey, SourceKey, StreamKey, Unparker};
use source::{EpollSource, EpollSourceSide, SourceRegistration};
use stream::{EpollStream, WatchedEvents};
use wait::EpollEvents;

/// The subject of an event; the top byte of the event's 64 bits.
mod kind {
    pub(super) const WAKER: u8 = 0;
    pub(super) const LISTENER: u8 = 1;
    pub(super) const STREAM: u8 = 2;
    pub(super) const SOURCE: u8 = 3;
}

/// Events of a connected socket. The kernel reports room only after a send was blocked, because a
/// UNIX socket has an edge of room each time the peer has read. Each request to such a peer would
/// wake this core once more. Urgent data is reported, because a receive ends before that data
/// although more bytes are there.
const STREAM_EVENTS: EventFlags =
    EventFlags::IN.union(EventFlags::PRI).union(EventFlags::RDHUP).union(EventFlags::ET);

/// Events of a socket that is connecting, or that was blocked once.
const ROOM_EVENTS: EventFlags = STREAM_EVENTS.union(EventFlags::OUT);

/// Events of a listener, and of a watch of another core's listener. Exclusive, so that the kernel
/// wakes a watcher on another core only when the owner of the listener is not waiting.
const LISTENER_EVENTS: EventFlags = EventFlags::IN.union(EventFlags::ET).union(EventFlags::EXCLUSIVE);

struct EpollListener {
    /// `None` once closed.
    fd: Option<OwnedFd>,
    /// Whether accept may succeed.
    readable: bool,
    /// Connections that were accepted when the listener closed, or by an earlier driver.
    accepted: VecDeque<OwnedFd>,
    waiter: Waiter,
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
        let failed = |step| move |source| IoError::Epoll { step, source };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|error| failed("epoll_create")(error.into()))?;
        let unparker = Unparker::new().map_err(failed("eventfd"))?;
        let waker = EventData::new_u64(Id { index: 0, generation: 0 }.pack(kind::WAKER));
        epoll::add(&epoll, unparker.as_fd(), waker, EventFlags::IN | EventFlags::ET)
            .map_err(|error| failed("watching the eventfd")(error.into()))?;
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
        for index in 0..count {
            let (flags, data) = self.events.get(index);
            let (kind, id) = Id::unpack(data);
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
                        source.on_event(flags, self.epoll.as_fd(), id);
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
        unwatch(&self.epoll, fd.as_fd());
        while let Ok(Some(connection)) = accept_now(fd.as_fd()) {
            listener.accepted.push_back(connection);
        }
        listener.waiter.wake();
    }

    pub(crate) fn discard_listener(&mut self, key: ListenerKey) {
        if let Some(EpollListener { fd: Some(fd), .. }) = self.listeners.remove(key.0) {
            unwatch(&self.epoll, fd.as_fd());
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

    pub(crate) fn try_recv(&mut self, key: StreamKey, buf: &mut Vec<u8>) -> io::Result<Option<usize>> {
        let stream = self.streams.get_mut(key.0).ok_or_else(|| stale("stream"))?;
        stream.try_recv(buf, &mut self.inbox)
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

    /// The close removes the descriptor from the epoll set, unless a duplicate is open elsewhere.
    /// Later events, and an event that is already fetched, find a stale id.
    pub(crate) fn close_stream(&mut self, key: StreamKey) {
        if let Some(stream) = self.streams.remove(key.0) {
            stream.close();
        }
    }

    /// Never pending, because no operation of the kernel is under way. A later event of the stream
    /// finds a stale id, and bytes stay in the socket.
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
        self.insert_source(EpollSource::new(fd, SourceRegistration::OneShot))
    }

    pub(crate) fn add_watch(&mut self, fd: OwnedFd) -> io::Result<SourceKey> {
        self.insert_source(EpollSource::new(fd, SourceRegistration::Exclusive))
    }

    fn insert_source(&mut self, source: EpollSource) -> io::Result<SourceKey> {
        let id = self.sources.insert(source);
        let source = self.sources.get(id).expect("just inserted");
        let registered = self
            .watch(source.fd(), kind::SOURCE, id, source.registration().first_events())
            .and_then(|()| source.arm(self.epoll.as_fd(), id));
        if let Err(error) = registered {
            if let Some(mut source) = self.sources.remove(id) {
                source.wake_all();
            }
            return Err(error);
        }
        Ok(SourceKey(id))
    }

    pub(crate) fn poll_readable(&mut self, cx: &mut Context<'_>, key: SourceKey) -> Poll<io::Result<()>> {
        self.poll_source(cx, key, EpollSource::input)
    }

    pub(crate) fn poll_writable(&mut self, cx: &mut Context<'_>, key: SourceKey) -> Poll<io::Result<()>> {
        self.poll_source(cx, key, EpollSource::room)
    }

    fn poll_source(
        &mut self,
        cx: &mut Context<'_>,
        key: SourceKey,
        side: fn(&mut EpollSource) -> &mut EpollSourceSide,
    ) -> Poll<io::Result<()>> {
        match self.sources.get_mut(key.0) {
            Some(source) => source.poll(cx, self.epoll.as_fd(), key.0, side),
            None => Poll::Ready(Err(stale("source"))),
        }
    }

    pub(crate) fn source_fd(&self, key: SourceKey) -> Option<BorrowedFd<'_>> {
        self.sources.get(key.0).map(EpollSource::fd)
    }

    pub(crate) fn close_source(&mut self, key: SourceKey) {
        if let Some(source) = self.sources.remove(key.0) {
            unwatch(&self.epoll, source.fd());
        }
    }
}

impl Epoll {
    pub(crate) fn detach(&mut self, key: ObjectKey) -> bool {
        let object = match key {
            ObjectKey::Stream(StreamKey(id)) => self.streams.remove(id).map(|stream| {
                if stream.watched() != WatchedEvents::Nothing {
                    unwatch(&self.epoll, stream.fd());
                }
                DetachedObject::Stream(stream.into_detached())
            }),
            ObjectKey::Listener(ListenerKey(id)) => self.listeners.remove(id).map(|listener| {
                let EpollListener { fd, accepted, waiter, .. } = listener;
                if let Some(fd) = &fd {
                    unwatch(&self.epoll, fd.as_fd());
                }
                let waiter = waiter.into();
                DetachedObject::Listener(DetachedListener { fd, accepted, failed: None, waiter })
            }),
            ObjectKey::Source(SourceKey(id)) => self.sources.remove(id).map(|source| {
                unwatch(&self.epoll, source.fd());
                DetachedObject::Source(source.into_detached())
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
            DetachedObject::Source(source) => {
                self.insert_source(EpollSource::attached(source)).map(ObjectKey::Source)
            }
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
}

impl Drop for Epoll {
    fn drop(&mut self) {
        self.streams.iter_mut().for_each(|(_, stream)| stream.before_close());
    }
}

/// Makes the kernel report more events of a stream. The kernel also reports present readiness.
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

/// Removes `fd` from the epoll set before a close. A close alone is not enough while another
/// process holds the same socket, because this epoll set would still get events. A refusal is
/// harmless, because a later event finds a stale id.
fn unwatch(epoll: &OwnedFd, fd: BorrowedFd<'_>) {
    let _ = epoll::delete(epoll, fd);
}
