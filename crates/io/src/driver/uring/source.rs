//! Any other descriptor of the io_uring driver that is watched for input.
//!
//! Each wait is a poll operation, which checks the level when it starts, so sources are
//! level-triggered. Tested in `tests/suite`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll};

use rustix::fs::{FileType, fstat};
use rustix::io::Errno;

use super::ring::Ring;
use super::{NOBODY, operation};
use crate::driver::table::Id;
use crate::driver::waiter::Waiter;

pub(super) struct UringSource {
    fd: OwnedFd,
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

impl UringSource {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self { fd, watching: false, ready: false, waiter: Waiter::default() }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn poll_readable(&mut self, id: Id, cx: &mut Context<'_>, ring: &mut Ring) -> Poll<()> {
        if std::mem::take(&mut self.ready) {
            return Poll::Ready(());
        }
        self.waiter.wait(cx);
        if !self.watching {
            self.watching = true;
            ring.poll(self.fd.as_raw_fd(), libc::POLLIN, id.pack(operation::SOURCE));
        }
        Poll::Pending
    }

    /// Readable, at the end or broken: a read will tell.
    pub(super) fn on_ready(&mut self) {
        self.watching = false;
        self.ready = true;
        self.waiter.wake();
    }

    pub(super) fn close(self, id: Id, ring: &mut Ring) {
        self.cancel(id, ring);
        ring.close(self.fd, NOBODY.pack(operation::SILENT));
    }

    pub(super) fn cancel(&self, id: Id, ring: &mut Ring) {
        if self.watching {
            ring.cancel(id.pack(operation::SOURCE), NOBODY.pack(operation::SILENT));
        }
    }
}
