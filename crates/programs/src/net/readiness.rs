//! Notification of ready sockets: an epoll per core, watched by a task there.
//!
//! Every socket is armed once at a time (`EPOLLONESHOT`), so that the socket is not reported ready
//! on two cores at once. A handler that would block arms the socket again, from any core. A late
//! event for a slot that was given to another socket causes a spurious notification: handlers try,
//! would block, and arm again.

use rustix::{
    event::{
        Timespec,
        epoll::{self, EventData, EventFlags},
    },
    io::Errno,
};
use slab::Slab;
use std::{
    io,
    mem::MaybeUninit,
    os::fd::{BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
};
use vermeil::{CoreIndex, Handle, Source};

/// Events taken in one call: a limit on the buffer on the stack, 1.5 KiB on x86-64. A second call
/// takes more.
const EVENTS_AT_ONCE: usize = 128;

/// Called when a socket is ready: posts an event.
type Tell = Arc<dyn Fn() + Send + Sync>;

/// The sockets that a core watches.
pub struct Readiness {
    epoll: OwnedFd,
    watched: Mutex<Slab<Tell>>,
}

impl Readiness {
    /// Starts watching on `core`, for as long as the runtime lives.
    ///
    /// # Errors
    /// As epoll_create(2).
    pub fn start(handle: &Handle, core: CoreIndex) -> io::Result<Arc<Self>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let readiness = Arc::new(Self { epoll, watched: Mutex::default() });
        let watching = readiness.clone();
        handle.spawn_on(&handle.color_on(core), async move { watching.watch_all().await });
        Ok(readiness)
    }

    /// Keeps the callback of a socket; returns the socket's slot.
    pub(super) fn keep(&self, tell: Tell) -> usize {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).insert(tell)
    }

    /// Calls the callback at `place` once `fd` has input.
    pub(super) fn add(&self, fd: BorrowedFd<'_>, place: usize) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ONESHOT;
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(place as u64), flags)?)
    }

    /// Arms the socket at `place` again.
    pub(super) fn again(&self, fd: BorrowedFd<'_>, place: usize, flags: EventFlags) -> io::Result<()> {
        let data = EventData::new_u64(place as u64);
        Ok(epoll::modify(&self.epoll, fd, data, flags | EventFlags::ONESHOT)?)
    }

    /// Drops the callback of the socket at `place`.
    pub(super) fn forget(&self, place: usize) {
        let tell = self.watched.lock().unwrap_or_else(PoisonError::into_inner).try_remove(place);
        // Outside the lock, because the callback may hold the last reference to the socket.
        drop(tell);
    }

    async fn watch_all(&self) -> io::Result<()> {
        let source = Source::new(self.epoll.try_clone()?)?;
        loop {
            source.readable().await?;
            while self.tell_ready()? {}
        }
    }

    /// Notifies some ready sockets. Returns whether there were any.
    fn tell_ready(&self) -> io::Result<bool> {
        let mut buffer = [MaybeUninit::uninit(); EVENTS_AT_ONCE];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let (events, _) = match epoll::wait(&self.epoll, &mut buffer, Some(&now)) {
            Err(Errno::INTR) => return Ok(true),
            waited => waited?,
        };
        for event in &*events {
            let place = event.data.u64() as usize;
            let tell = self.watched.lock().unwrap_or_else(PoisonError::into_inner).get(place).cloned();
            if let Some(tell) = tell {
                tell();
            }
        }
        Ok(!events.is_empty())
    }
}
