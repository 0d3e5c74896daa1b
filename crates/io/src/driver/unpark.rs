//! The waker that makes a blocked turn return.
//!
//! An eventfd that is written and never read: both drivers watch the eventfd for edges, and every
//! write is an edge. So a wake-up costs one system call and its reception none. The counter would
//! be full after 2^64 writes. Tested in `tests/suite`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// Makes a blocking `Driver::turn` return, or the next turn if none blocks now. Cheap to clone,
/// usable on any thread.
#[derive(Debug, Clone)]
pub struct Unparker {
    waker: Arc<OwnedFd>,
}

impl Unparker {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { waker: Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?) })
    }

    /// Wakes the driver: one `write`. No effect once the driver is gone.
    pub fn unpark(&self) {
        let written = rustix::io::write(&*self.waker, &1u64.to_ne_bytes());
        debug_assert!(written.is_ok(), "an eventfd of our own refused a write: {written:?}");
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}
