//! Receiving straight into the caller's buffer.
//!
//! The only path of the epoll driver, and the fallback of the io_uring driver when its buffers are all in use.
//! Tested, through the drivers, in `tests/suite`.

#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

/// Appends at most `limit` bytes that have arrived; 0 is the end of the stream. Grows `buf` only when its spare
/// capacity is below `limit`.
#[inline]
pub(crate) fn recv_into(fd: BorrowedFd<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<usize, Errno> {
    buf.reserve(limit);
    let filled = buf.len();
    loop {
        let spare = &mut buf.spare_capacity_mut()[..limit];
        match recv(fd, spare, RecvFlags::DONTWAIT) {
            Ok(((received, _), _)) => {
                let count = received.len();
                // SAFETY: the kernel has written the first `count` bytes of the spare capacity, as `recv` vouches for
                // by handing them out as initialized.
                unsafe { buf.set_len(filled + count) };
                return Ok(count);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}
