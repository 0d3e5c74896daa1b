//! Options of PHP: source, size of the pool, and bounds of the queue.

use crate::{User, php_ini::PoolValues};
use std::{net::SocketAddr, path::PathBuf, time::Duration};
use vermeil_spawn::NewPrivileges;

/// Requests that may wait for PHP unless told otherwise. With 2 ms for each and four children, half
/// a second of work.
pub const QUEUE_MAX: usize = 1024;

/// Children for each core unless told otherwise: three may wait for a database while one computes,
/// at 2 MB each.
pub const CHILDREN_PER_CORE: usize = 4;

/// Requests after which a child is replaced unless told otherwise, because scripts leak memory. A
/// child costs 25 ms of processor time to start, so replacing costs 5 µs per request.
pub const REQUESTS_PER_CHILD: u32 = 5000;

/// Children of a host's own pool unless told otherwise. As many as start within 52 ms; most hosts
/// never need a second.
pub const HOST_CHILDREN: usize = 4;

/// Default idle time after which a host's pool is stopped. A restart takes some 50 ms, so restarts
/// add less than a thousandth to the time between two visits.
pub const IDLE_STOP: Duration = Duration::from_secs(60);

/// Pools of hosts that run at once unless told otherwise. With four children at 2 MB of their own
/// each, half a gigabyte.
pub const POOLS_MAX: usize = 64;

/// Idle time after which a connection to an external pool is closed. At more than four requests per
/// second a connection stays open. At fewer, opening a connection (30 µs) costs about a
/// ten-thousandth of a core, and the child is free for other clients.
pub const KEPT_IDLE: Duration = Duration::from_millis(250);

/// PHP for a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PhpOptions {
    /// Source of PHP.
    pub source: PhpSource,
    /// Connections open at once: the children of the pool.
    pub children: usize,
    /// Connections to an external pool that are kept between requests, for [`KEPT_IDLE`]. Default:
    /// a quarter of `children`.
    pub kept_max: usize,
    /// Requests that may wait for a connection; beyond: 503. See [`QUEUE_MAX`].
    pub queue_max: usize,
    /// Requests after which a child of our own pool is replaced; 0: never. See
    /// [`REQUESTS_PER_CHILD`].
    pub requests_per_child: u32,
    /// The user of our own pool, if the server is started by the superuser. Default: `www-data`, or
    /// `nobody`.
    pub user: Option<String>,
    /// Whether our own pool may gain privileges by executing other programs. Default: no.
    pub new_privileges: NewPrivileges,
}

/// The source of PHP.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PhpSource {
    /// Our own pool, of the php-fpm or php-cgi that is found.
    Own,
    /// Our own pool, of this php-fpm or php-cgi.
    Program(PathBuf),
    /// A FastCGI pool that others run, behind a UNIX socket.
    Unix(PathBuf),
    /// A FastCGI pool that others run, at the first of these addresses that accepts. All have the
    /// same port.
    Tcp(Vec<SocketAddr>),
}

/// Default number of kept connections to an external pool that allows `children` connections: a
/// quarter. Each kept connection holds a child that other clients may need, so the rest is always
/// given back.
pub fn kept_of(children: usize) -> usize {
    children / 4
}

impl PhpSource {
    /// The port of the pool, if it is at an address.
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp(addrs) => addrs.first().map(SocketAddr::port),
            Self::Own | Self::Program(_) | Self::Unix(_) => None,
        }
    }

    /// An address of the pool that has another port than `allowed`.
    pub fn beyond(&self, allowed: Option<u16>) -> Option<SocketAddr> {
        match self {
            Self::Tcp(addrs) => addrs.iter().find(|addr| Some(addr.port()) != allowed).copied(),
            Self::Own | Self::Program(_) | Self::Unix(_) => None,
        }
    }
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

    /// The program of our own pool, if configured.
    pub fn program(&self) -> Option<&PathBuf> {
        match &self.source {
            PhpSource::Program(program) => Some(program),
            _ => None,
        }
    }

    /// Whether the pool is our own, not an external pool.
    pub fn is_ours(&self) -> bool {
        matches!(self.source, PhpSource::Own | PhpSource::Program(_))
    }
}

/// A separate pool for a host, started by the first request for the host. Hosts with equal options
/// share a pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolOptions {
    /// The user of the pool, if configured. Default: as the server's own pool.
    pub user: Option<User>,
    /// Children of the pool, and connections open at once. See [`HOST_CHILDREN`].
    pub children: usize,
    /// Requests that may wait for a connection; beyond: 503. See [`QUEUE_MAX`].
    pub queue_max: usize,
    /// Requests after which a child is replaced; 0: never. See [`REQUESTS_PER_CHILD`].
    pub requests_per_child: u32,
    /// Idle time after which the pool is stopped. See [`IDLE_STOP`].
    pub idle_stop: Duration,
    /// Whether the pool may gain privileges by executing other programs. Default: no.
    pub new_privileges: NewPrivileges,
    /// The environment and the php.ini values of the pool.
    pub values: PoolValues,
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
            values: PoolValues::default(),
        }
    }
}

/// Options of all pools of hosts together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolsOptions {
    /// The php-cgi or php-fpm of the pools; `None` to search for a program.
    pub program: Option<PathBuf>,
    /// Number of pools that run at once. Beyond: the pool that has been idle longest is stopped.
    /// Without an idle pool, requests wait. See [`POOLS_MAX`].
    pub running_max: usize,
}

impl Default for PoolsOptions {
    fn default() -> Self {
        Self { program: None, running_max: POOLS_MAX }
    }
}

/// The extension of PHP programs, compared without regard to case.
pub const EXTENSION: &[u8] = b".php";

/// The index program of a folder.
pub const INDEX: &str = "index.php";

/// Whether the name of the file at `path` makes it a PHP program.
pub fn is_named_php(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    name.len() > EXTENSION.len() && vermeil_files::ends_with(name, EXTENSION)
}
