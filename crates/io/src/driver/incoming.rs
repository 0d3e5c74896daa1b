//! Receiving by a system call.
//!
//! The only path of the epoll driver, and the fallback of the io_uring driver when its buffers are all in use. Bytes go
//! through one buffer of the driver, so that the caller's grows by what has arrived and an idle connection holds
//! nothing; copying a request costs less than touching fresh memory for each.
//! Tested, through the drivers, in `tests/suite`.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

/// The buffer that all streams of a driver receive through.
pub(crate) struct Inbox {
    buffer: Box<[u8]>,
}

impl Inbox {
    pub(crate) fn new(bytes: u32) -> Self {
        Self { buffer: vec![0; bytes.max(1) as usize].into_boxed_slice() }
    }

    /// The most that one call receives.
    pub(crate) fn bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Appends what has arrived to `out`; 0 is the end of the stream.
    #[inline]
    pub(crate) fn receive(&mut self, fd: BorrowedFd<'_>, out: &mut Vec<u8>) -> Result<usize, Errno> {
        loop {
            match recv(fd, &mut *self.buffer, RecvFlags::DONTWAIT) {
                Ok((count, _)) => {
                    out.extend_from_slice(&self.buffer[..count]);
                    return Ok(count);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
