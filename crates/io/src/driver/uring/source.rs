//! Any other descriptor of the io_uring driver that is watched for input and for room.
//!
//! Each wait is a poll operation, which checks the level when it starts, so sources are
//! level-triggered. Tested in `tests/suite`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll};

use rustix::fs::{FileType, fstat};
use rustix::io::Errno;

use super::ring::{Ring, RingWait};
use super::{NOBODY, operation};
use crate::driver::detached::DetachedSource;
use crate::driver::table::Id;
use crate::driver::waiter::Waiter;

pub(super) struct UringSource {
    fd: OwnedFd,
    input: WatchedSide,
    room: WatchedSide,
}

/// A direction of a source.
#[derive(Default)]
struct WatchedSide {
    watching: bool,
    ready: bool,
    waiter: Waiter,
}

/// Refuses descriptors that are always ready, as epoll does.
pub(super) fn add_allowed(fd: BorrowedFd<'_>) -> io::Result<()> {
    match FileType::from_raw_mode(fstat(fd)?.st_mode) {
        FileType::RegularFile | FileType::Directory => Err(Errno::PERM.into()),
        _ => Ok(()),
    }
}

impl WatchedSide {
    fn attached(ready: bool, waiter: Waiter) -> Self {
        Self { watching: false, ready, waiter }
    }

    fn poll(&mut self, cx: &Context<'_>, watch: impl FnOnce()) -> Poll<()> {
        if std::mem::take(&mut self.ready) {
            return Poll::Ready(());
        }
        self.waiter.wait(cx);
        self.watch(watch);
        Poll::Pending
    }

    fn watch(&mut self, watch: impl FnOnce()) {
        if self.waiter.is_waiting() && !self.watching {
            self.watching = true;
            watch();
        }
    }

    fn on_ready(&mut self) {
        self.watching = false;
        self.ready = true;
        self.waiter.wake();
    }
}

impl UringSource {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self { fd, input: WatchedSide::default(), room: WatchedSide::default() }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn poll_readable(&mut self, id: Id, cx: &Context<'_>, ring: &mut Ring) -> Poll<()> {
        let fd = self.fd.as_raw_fd();
        self.input.poll(cx, || ring.poll(fd, libc::POLLIN, id.pack(operation::SOURCE)))
    }

    pub(super) fn poll_writable(&mut self, id: Id, cx: &Context<'_>, ring: &mut Ring) -> Poll<()> {
        let fd = self.fd.as_raw_fd();
        self.room.poll(cx, || ring.poll(fd, libc::POLLOUT, id.pack(operation::SOURCE_ROOM)))
    }

    /// Readable, at the end or broken: a read will tell.
    pub(super) fn on_ready(&mut self) {
        self.input.on_ready();
    }

    /// Writable or broken: a write will tell.
    pub(super) fn on_room(&mut self) {
        self.room.on_ready();
    }

    /// Closes the descriptor at once, as the epoll driver does, because the caller may bind the
    /// address of the socket again before the next turn.
    pub(super) fn close(self, id: Id, ring: &mut Ring) {
        if self.input.watching || self.room.watching {
            // A watch keeps the socket open until the kernel has cancelled the watch.
            self.cancel(id, ring);
            // An error comes again with the next turn, which reports it.
            let _ = ring.enter(RingWait::No);
            if ring.has_unsubmitted() {
                // The kernel takes nothing now. The entries in the queue name the descriptor by its
                // number, so the close comes behind them.
                ring.close(self.fd, NOBODY.pack(operation::SILENT));
            }
        }
    }

    pub(super) fn cancel(&self, id: Id, ring: &mut Ring) {
        let silent = NOBODY.pack(operation::SILENT);
        if self.input.watching {
            ring.cancel(id.pack(operation::SOURCE), silent);
        }
        if self.room.watching {
            ring.cancel(id.pack(operation::SOURCE_ROOM), silent);
        }
    }

    /// The source leaves the driver. The next driver asks again for the readiness that no
    /// completion has reported.
    pub(super) fn into_detached(self, id: Id, ring: &mut Ring) -> DetachedSource {
        self.cancel(id, ring);
        let Self { fd, input, room } = self;
        let ready = [input.ready, room.ready];
        DetachedSource { fd, is_watch: false, ready, reader: input.waiter.into(), writer: room.waiter.into() }
    }

    /// A source from another driver. [`go_on`](Self::go_on) watches for its waiting tasks.
    pub(super) fn attached(source: DetachedSource) -> Self {
        let DetachedSource { fd, ready: [input, room], mut reader, mut writer, .. } = source;
        let input = WatchedSide::attached(input, reader.unpack());
        Self { fd, input, room: WatchedSide::attached(room, writer.unpack()) }
    }

    pub(super) fn go_on(&mut self, id: Id, ring: &mut Ring) {
        let fd = self.fd.as_raw_fd();
        self.input.watch(|| ring.poll(fd, libc::POLLIN, id.pack(operation::SOURCE)));
        self.room.watch(|| ring.poll(fd, libc::POLLOUT, id.pack(operation::SOURCE_ROOM)));
    }
}
