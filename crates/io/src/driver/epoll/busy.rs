//! Busy polling of an epoll set: waits poll the network card of the set's sockets before they sleep
//! (`EPIOCSPARAMS`, Linux 6.9; Documentation/networking/napi.rst). Tested in `tests/suite`.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Packets per poll of the card: the kernel's default (`BUSY_POLL_BUDGET`, `net/core/dev.c`). More
/// than 64 needs a right.
const BUDGET: u16 = 8;

/// Makes waits on `epoll` poll for at most `up_to`; zero disables polling.
pub(super) fn poll_for(epoll: BorrowedFd<'_>, up_to: Duration) -> io::Result<()> {
    let params = libc::epoll_params {
        busy_poll_usecs: u32::try_from(up_to.as_micros()).unwrap_or(u32::MAX),
        busy_poll_budget: BUDGET,
        // Interrupts stay on, because other sets share the card.
        prefer_busy_poll: 0,
        __pad: 0,
    };
    // SAFETY: the descriptor is open, and the kernel reads `params`, which has the right layout and
    // outlives the call.
    match unsafe { libc::ioctl(epoll.as_raw_fd(), libc::EPIOCSPARAMS, &raw const params) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
