//! PHP over FastCGI: a pool of our own or of others, connections that all cores share fairly, and one request's way.
//!
//! Reading order: [`PhpOptions`], `run` (one request), `pool` (whose turn it is), `idle` (connections that are kept),
//! `stream` (one connection), `own` (finding, starting and supervising PHP). What PHP shares with other programs is in
//! `gateway`. Tested with real PHP through the binary (`crates/cli/tests/e2e/php.rs`); `pool` by itself.

mod idle;
mod options;
mod own;
mod pool;
mod run;
mod snapshot;
mod stream;

pub(crate) use idle::watch;
pub use options::{CHILDREN_PER_CORE, PhpOptions, PhpSource, QUEUE_MAX, REQUESTS_PER_CHILD};
pub use own::PhpError;
pub(crate) use own::{Prepared, Supervisor, prepare};
pub(crate) use run::run;
pub use snapshot::PoolSnapshot;

use idle::Idle;
use pool::{Pool, PoolBounds};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use stream::Address;
use vermeil_fastcgi::request::Persistence;

/// PHP, as all cores share it.
#[derive(Debug)]
pub(crate) struct Php {
    pub(crate) pool: Arc<Pool>,
    address: Address,
    /// Whether connections are kept: only with a pool whose size we know.
    persistence: Persistence,
    /// For a pool of our own: if nobody listens, it is being restarted.
    restarts: Option<Arc<AtomicU64>>,
}

impl Php {
    /// A pool that others run. Its connections are not kept: an idle one would hold a child that others may need.
    pub(crate) fn of_others(options: &PhpOptions, cores: usize) -> Arc<Self> {
        let address = match &options.source {
            PhpSource::Unix(path) => Address::Unix(path.clone()),
            PhpSource::Tcp(addr) => Address::Tcp(*addr),
            PhpSource::Own | PhpSource::Program(_) => unreachable!("a pool of our own is not of others"),
        };
        Arc::new(Self {
            pool: Pool::new(bounds(options), cores),
            address,
            persistence: Persistence::Close,
            restarts: None,
        })
    }

    /// The pool that was prepared; `restarts` counts how often it had to be started again.
    pub(crate) fn own(
        options: &PhpOptions,
        prepared: &Prepared,
        restarts: Arc<AtomicU64>,
        cores: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            pool: Pool::new(bounds(options), cores),
            address: prepared.plan.address(),
            persistence: Persistence::Keep,
            restarts: Some(restarts),
        })
    }

    /// What it is doing now, and has done.
    pub(crate) fn snapshot(&self) -> PoolSnapshot {
        let restarts = self.restarts.as_ref().map_or(0, |restarts| restarts.load(Ordering::Relaxed));
        PoolSnapshot { restarts, ..self.pool.snapshot() }
    }
}

fn bounds(options: &PhpOptions) -> PoolBounds {
    PoolBounds { connections_max: options.children.max(1), queue_max: options.queue_max }
}

/// PHP, as one core has it.
pub(crate) struct PhpCore {
    pub(crate) php: Arc<Php>,
    pub(crate) idle: Idle,
}

impl PhpCore {
    pub(crate) fn new(php: Arc<Php>) -> Self {
        Self { php, idle: Idle::default() }
    }
}
