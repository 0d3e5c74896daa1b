//! Errors of making a driver.
//!
//! Errors of single operations are plain `std::io::Error`s, because their callers distinguish them
//! by kind. The errors that the crate makes, for stale keys, closed listeners and sends under way,
//! are here so that both drivers give the same. Tested in `tests/suite`.

use std::io;

/// The reason why a driver could not be made.
#[derive(Debug, thiserror::Error)]
pub enum IoError {
    /// io_uring was requested, and a required feature does not work here.
    #[error("io_uring cannot be used: {step}: {source} (choose epoll, or auto to fall back to it)")]
    Uring {
        /// The step that failed.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// epoll could not be set up, and there is no other fallback.
    #[error("epoll cannot be set up: {step}: {source} (is the limit of open files reached?)")]
    Epoll {
        /// The step that failed.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

/// The answer to a key whose stream, listener or source is closed.
#[cold]
pub(crate) fn stale(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, format!("the {what} of this key is closed"))
}

/// The answer to a send, a file or a shutdown while a send is under way, or its end was not asked
/// for.
#[cold]
pub(crate) fn under_way() -> io::Error {
    let advice = "a send of this stream is under way: wait for its end (`sent`) before the next send, file or shutdown";
    io::Error::new(io::ErrorKind::ResourceBusy, advice)
}

/// The answer of `poll_accept` once a closed listener has handed over its last connection.
#[cold]
pub(crate) fn listener_closed() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "listener closed")
}
