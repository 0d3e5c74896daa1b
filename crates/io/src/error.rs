//! What can go wrong while a driver is being made.
//!
//! Errors of single operations are plain `std::io::Error`s, since their callers treat them by kind. The two that the
//! crate itself invents, for stale keys and closed listeners, are made here so that both drivers say the same.
//! Tested in `tests/suite`.

use std::io;

/// Why a driver could not be made.
#[derive(Debug, thiserror::Error)]
pub enum IoError {
    /// io_uring was asked for, and something it needs does not work here.
    #[error("io_uring cannot be used: {step}: {source} (choose epoll, or auto to fall back to it)")]
    Uring {
        /// The step that failed.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// epoll could not be set up; there is nothing left to fall back to.
    #[error("epoll cannot be set up: {step}: {source} (is the limit of open files reached?)")]
    Epoll {
        /// The step that failed.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

/// The answer to a key whose stream, listener or source is closed.
#[cold]
pub(crate) fn stale(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, format!("the {what} of this key is closed"))
}

/// The answer of `poll_accept` once a closed listener has handed over its last connection.
#[cold]
pub(crate) fn listener_closed() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "listener closed")
}
