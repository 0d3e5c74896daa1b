//! Any other descriptor of the epoll driver that is watched for input and for room.
//!
//! A source is level-triggered: a one-shot registration is armed again for each wait, and arming
//! reports present readiness. A watch of another core's listener is edge-triggered and exclusive.
//! Such a registration cannot be modified, so the kernel gets it once. Tested in
//! `tests/suite/sources.rs`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll};

use rustix::event::epoll::{self, EventData, EventFlags};

use super::{LISTENER_EVENTS, kind};
use crate::driver::detached::DetachedSource;
use crate::driver::table::Id;
use crate::driver::waiter::Waiter;

/// The registration of a source with the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SourceRegistration {
    /// Armed again for each wait.
    OneShot,
    /// Registered once, for edges that no earlier waiter in the queue has taken.
    Exclusive,
}

impl SourceRegistration {
    /// The events of a source for which no task waits yet.
    pub(super) fn first_events(self) -> EventFlags {
        match self {
            Self::OneShot => EventFlags::ONESHOT,
            Self::Exclusive => LISTENER_EVENTS,
        }
    }
}

pub(super) struct EpollSource {
    fd: OwnedFd,
    registration: SourceRegistration,
    input: EpollSourceSide,
    room: EpollSourceSide,
}

/// A direction of a source.
#[derive(Default)]
pub(super) struct EpollSourceSide {
    ready: bool,
    waiter: Waiter,
}

impl EpollSourceSide {
    fn on_ready(&mut self) {
        self.ready = true;
        self.waiter.wake();
    }
}

impl EpollSource {
    pub(super) fn new(fd: OwnedFd, registration: SourceRegistration) -> Self {
        Self { fd, registration, input: EpollSourceSide::default(), room: EpollSourceSide::default() }
    }

    /// A source from another driver. [`arm`](Self::arm) watches for its waiting tasks.
    pub(super) fn attached(source: DetachedSource) -> Self {
        let DetachedSource { fd, is_watch, ready: [input, room], mut reader, mut writer } = source;
        let registration = if is_watch { SourceRegistration::Exclusive } else { SourceRegistration::OneShot };
        let input = EpollSourceSide { ready: input, waiter: reader.unpack() };
        let room = EpollSourceSide { ready: room, waiter: writer.unpack() };
        Self { fd, registration, input, room }
    }

    /// The source, after it has left the driver.
    pub(super) fn into_detached(self) -> DetachedSource {
        let Self { fd, registration, input, room } = self;
        DetachedSource {
            fd,
            is_watch: registration == SourceRegistration::Exclusive,
            ready: [input.ready, room.ready],
            reader: input.waiter.into(),
            writer: room.waiter.into(),
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn registration(&self) -> SourceRegistration {
        self.registration
    }

    pub(super) fn input(&mut self) -> &mut EpollSourceSide {
        &mut self.input
    }

    pub(super) fn room(&mut self) -> &mut EpollSourceSide {
        &mut self.room
    }

    pub(super) fn poll(
        &mut self,
        cx: &Context<'_>,
        epoll: BorrowedFd<'_>,
        id: Id,
        side: fn(&mut Self) -> &mut EpollSourceSide,
    ) -> Poll<io::Result<()>> {
        let polled = side(self);
        if std::mem::take(&mut polled.ready) {
            return Poll::Ready(Ok(()));
        }
        let was_waiting = polled.waiter.is_waiting();
        polled.waiter.wait(cx);
        if !was_waiting && let Err(error) = self.arm(epoll, id) {
            // The next poll must try again, because no event will come.
            side(self).waiter.clear();
            return Poll::Ready(Err(error));
        }
        Poll::Pending
    }

    /// Wakes the tasks that an event concerns, and arms the registration for the other direction,
    /// because the event has disarmed both.
    pub(super) fn on_event(&mut self, flags: EventFlags, epoll: BorrowedFd<'_>, id: Id) {
        let broken = EventFlags::HUP | EventFlags::ERR;
        if flags.intersects(EventFlags::IN | broken) {
            self.input.on_ready();
        }
        if flags.intersects(EventFlags::OUT | broken) {
            self.room.on_ready();
        }
        if self.arm(epoll, id).is_err() {
            // The woken task polls again, and gets the error.
            self.wake_all();
        }
    }

    /// Makes the kernel report the directions for which tasks wait. Does nothing if no task waits,
    /// or if the registration is permanent.
    pub(super) fn arm(&self, epoll: BorrowedFd<'_>, id: Id) -> io::Result<()> {
        let mut events = EventFlags::empty();
        if self.input.waiter.is_waiting() {
            events |= EventFlags::IN;
        }
        if self.room.waiter.is_waiting() {
            events |= EventFlags::OUT;
        }
        if events.is_empty() || self.registration == SourceRegistration::Exclusive {
            return Ok(());
        }
        let data = EventData::new_u64(id.pack(kind::SOURCE));
        Ok(epoll::modify(epoll, &self.fd, data, events | EventFlags::ONESHOT)?)
    }

    pub(super) fn wake_all(&mut self) {
        self.input.waiter.wake();
        self.room.waiter.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::task::Waker;

    const ID: Id = Id { index: 0, generation: 0 };

    /// Regression: only the first poll returned the error, and later polls waited for ever.
    #[test]
    fn each_poll_reports_failed_arm() {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let (input, _peer) = UnixStream::pair().unwrap();
        let mut unregistered = EpollSource::new(input.into(), SourceRegistration::OneShot);
        let cx = Context::from_waker(Waker::noop());
        for _ in 0..2 {
            let polled = unregistered.poll(&cx, epoll.as_fd(), ID, EpollSource::input);
            assert!(matches!(polled, Poll::Ready(Err(_))), "{polled:?}");
        }
    }

    /// Regression: an event for one direction lost the wait for the other direction.
    #[test]
    fn failed_arm_wakes_other_direction() {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let (input, _peer) = UnixStream::pair().unwrap();
        let mut unregistered = EpollSource::new(input.into(), SourceRegistration::OneShot);
        unregistered.room.waiter.wait(&Context::from_waker(Waker::noop()));
        unregistered.on_event(EventFlags::IN, epoll.as_fd(), ID);
        assert!(!unregistered.room.waiter.is_waiting());
    }
}
