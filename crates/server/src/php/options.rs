//! What can be said about PHP: where it is, how much of it there is, and who may wait for it.

use std::{net::SocketAddr, path::PathBuf};

/// Requests that may wait for PHP unless told otherwise. Guess: with 2 ms for each and four children, half a second of
/// work.
pub const QUEUE_MAX: usize = 1024;

/// Children for each core unless told otherwise. Guess: as many as wait for a database while one computes, at 2 MB
/// each.
pub const CHILDREN_PER_CORE: usize = 4;

/// Requests after which a child is replaced unless told otherwise, against what scripts leak. Guess, ten times
/// php-cgi's own 500: a child costs 25 ms of processor time to start.
pub const REQUESTS_PER_CHILD: u32 = 5000;

/// PHP for one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhpOptions {
    /// Where it is.
    pub source: PhpSource,
    /// Connections open at once: the children of the pool.
    pub children: usize,
    /// Requests that may wait for one; beyond: 503. See [`QUEUE_MAX`].
    pub queue_max: usize,
    /// Requests after which a child of a pool of our own is replaced; 0: never. See [`REQUESTS_PER_CHILD`].
    pub requests_per_child: u32,
    /// The user that a pool of our own runs as, if we are the superuser. Default: `www-data`, or `nobody`.
    pub user: Option<String>,
}

/// Where PHP is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhpSource {
    /// A pool of our own, of the php-fpm or php-cgi that is found.
    Own,
    /// A pool of our own, of this php-fpm or php-cgi.
    Program(PathBuf),
    /// A FastCGI pool that others run, behind a UNIX socket.
    Unix(PathBuf),
    /// The same, at an address.
    Tcp(SocketAddr),
}

impl PhpOptions {
    /// With defaults for `cores` cores.
    pub fn new(source: PhpSource, cores: usize) -> Self {
        Self {
            source,
            children: CHILDREN_PER_CORE * cores.max(1),
            queue_max: QUEUE_MAX,
            requests_per_child: REQUESTS_PER_CHILD,
            user: None,
        }
    }
}
