//! What can be said about PHP: where it is, how much of it there is, and who may wait for it.

use crate::privileges::User;
use std::{net::SocketAddr, path::PathBuf, time::Duration};
use vermeil_spawn::NewPrivileges;

/// Requests that may wait for PHP unless told otherwise. Guess: with 2 ms for each and four children, half a second of
/// work.
pub const QUEUE_MAX: usize = 1024;

/// Children for each core unless told otherwise. Guess: as many as wait for a database while one computes, at 2 MB
/// each.
pub const CHILDREN_PER_CORE: usize = 4;

/// Requests after which a child is replaced unless told otherwise, against what scripts leak. Guess, ten times
/// php-cgi's own 500: a child costs 25 ms of processor time to start.
pub const REQUESTS_PER_CHILD: u32 = 5000;

/// Children of a host's own pool unless told otherwise. As many as start within 52 ms; most hosts never need a second.
pub const HOST_CHILDREN: usize = 4;

/// How long a host's own pool is kept without a request unless told otherwise. Guess: longer than a visitor reads, far
/// shorter than the time between two visits of a small site; starting it again takes some 50 ms.
pub const IDLE_STOP: Duration = Duration::from_secs(60);

/// Pools of hosts that run at once unless told otherwise. Guess: with four children at 2 MB of their own each, half a
/// gigabyte.
pub const POOLS_MAX: usize = 64;

/// How long a connection to a pool of others is kept that nobody uses. Guess: longer than between two requests where
/// opening one costs anything, shorter than others notice.
pub const KEPT_IDLE: Duration = Duration::from_millis(250);

/// PHP for one server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PhpOptions {
    /// Where it is.
    pub source: PhpSource,
    /// Connections open at once: the children of the pool.
    pub children: usize,
    /// Connections to a pool of others that are kept between requests, for [`KEPT_IDLE`]. Default: a quarter of `children`.
    pub kept_max: usize,
    /// Requests that may wait for one; beyond: 503. See [`QUEUE_MAX`].
    pub queue_max: usize,
    /// Requests after which a child of a pool of our own is replaced; 0: never. See [`REQUESTS_PER_CHILD`].
    pub requests_per_child: u32,
    /// The user that a pool of our own runs as, if we are the superuser. Default: `www-data`, or `nobody`.
    pub user: Option<String>,
    /// Whether a pool of our own may gain privileges by executing other programs. Default: no.
    pub new_privileges: NewPrivileges,
}

/// Where PHP is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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

/// Connections to a pool of others that are kept unless told otherwise, for so many that may be open: a quarter. Each that
/// is kept holds a child, which others may need; the rest of our share is always given back.
pub fn kept_of(children: usize) -> usize {
    children / 4
}

impl PhpOptions {
    /// With defaults for `cores` cores.
    pub fn new(source: PhpSource, cores: usize) -> Self {
        Self {
            source,
            children: CHILDREN_PER_CORE * cores.max(1),
            kept_max: kept_of(CHILDREN_PER_CORE * cores.max(1)),
            queue_max: QUEUE_MAX,
            requests_per_child: REQUESTS_PER_CHILD,
            user: None,
            new_privileges: NewPrivileges::Refused,
        }
    }

    /// The program of a pool of our own, if one was named.
    pub(crate) fn program(&self) -> Option<&PathBuf> {
        match &self.source {
            PhpSource::Program(program) => Some(program),
            _ => None,
        }
    }

    /// Whether it is a pool of our own, not one that others run.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self.source, PhpSource::Own | PhpSource::Program(_))
    }
}

/// A pool of its own for a host, started by the first request for it. Hosts that ask for the same share one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolOptions {
    /// Who it runs as, if that is said. Default: as the server's own pool.
    pub user: Option<User>,
    /// Its children, and connections open to it at once. See [`HOST_CHILDREN`].
    pub children: usize,
    /// Requests that may wait for one; beyond: 503. See [`QUEUE_MAX`].
    pub queue_max: usize,
    /// Requests after which a child is replaced; 0: never. See [`REQUESTS_PER_CHILD`].
    pub requests_per_child: u32,
    /// How long it is kept without a request. See [`IDLE_STOP`].
    pub idle_stop: Duration,
    /// Whether it may gain privileges by executing other programs. Default: no.
    pub new_privileges: NewPrivileges,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            user: None,
            children: HOST_CHILDREN,
            queue_max: QUEUE_MAX,
            requests_per_child: REQUESTS_PER_CHILD,
            idle_stop: IDLE_STOP,
            new_privileges: NewPrivileges::Refused,
        }
    }
}

/// What holds for all pools of hosts together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolsOptions {
    /// The php-cgi or php-fpm that they are of; nothing for the one that is found.
    pub program: Option<PathBuf>,
    /// How many run at once. Beyond: the one that is idle for the longest time is stopped, and without one requests
    /// wait. See [`POOLS_MAX`].
    pub running_max: usize,
}

impl Default for PoolsOptions {
    fn default() -> Self {
        Self { program: None, running_max: POOLS_MAX }
    }
}
