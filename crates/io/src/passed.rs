//! Sockets that a service manager passes to this process (sd_listen_fds(3)).
//!
//! Owns the descriptors from 3 on, which the manager opened before this process began. Leaves out
//! the variables that tell their number and the addresses (`vermeil-server`, `activation.rs`).
//! Tested through the binary (`crates/e2e/tests/e2e/activation.rs`).

#![allow(unsafe_code)]

use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd},
    net::{
        AddressFamily, SocketType,
        sockopt::{ipv6_v6only, socket_acceptconn, socket_domain, socket_reuseport, socket_type},
    },
};
use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
    sync::atomic::{AtomicBool, Ordering},
};

/// The first descriptor that is passed (`SD_LISTEN_FDS_START`).
const FIRST: RawFd = 3;

static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes the `count` descriptors that were passed. Programs do not inherit them from now on, and
/// reads do not block. A second call takes none, because the first call owns the descriptors.
///
/// # Errors
/// A descriptor is not open.
pub fn take_passed(count: u16) -> io::Result<Vec<OwnedFd>> {
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    (FIRST..FIRST + RawFd::from(count)).map(take).collect()
}

fn take(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the borrow ends in this function, which only asks whether the number is open.
    let flags = fcntl_getfd(unsafe { BorrowedFd::borrow_raw(number) })?;
    if flags.contains(FdFlags::CLOEXEC) {
        // This process opened the descriptor, because such a descriptor does not survive exec.
        return Err(Errno::BADF.into());
    }
    // SAFETY: the descriptor is open. It comes from before the start of this process, because the
    // process opens all descriptors with CLOEXEC. `TAKEN` lets one call take it, so there is no
    // other owner.
    let passed = unsafe { OwnedFd::from_raw_fd(number) };
    fcntl_setfd(&passed, flags | FdFlags::CLOEXEC)?;
    fcntl_setfl(&passed, fcntl_getfl(&passed)? | OFlags::NONBLOCK)?;
    Ok(passed)
}

/// Whether a descriptor is a listening stream socket.
pub fn is_listening(fd: BorrowedFd<'_>) -> bool {
    socket_type(fd) == Ok(SocketType::STREAM) && socket_acceptconn(fd) == Ok(true)
}

/// Whether an IPv6 listener also takes IPv4.
pub fn takes_both_families(fd: BorrowedFd<'_>) -> bool {
    socket_domain(fd) == Ok(AddressFamily::INET6) && ipv6_v6only(fd) == Ok(false)
}

/// Whether the queue of a TCP listener is its own: other sockets may share the port, so the server
/// opens one socket for each core. Otherwise all cores accept from one socket.
pub fn shares_port(fd: BorrowedFd<'_>) -> bool {
    socket_reuseport(fd.as_fd()) == Ok(true)
}
