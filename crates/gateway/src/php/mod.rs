//! PHP over FastCGI: our own pool or an external pool, fair sharing of connections among all cores,
//! and the exchange of a request.
//!
//! Reading order: [`PhpOptions`], `run` (one request), `pool` (the queue for connections), `idle`
//! (kept connections), `working` (children that work on after their requests), `stream` (one
//! connection), `addresses` (those of an external pool), `unframe` (answers), `own` (finding,
//! starting and supervising PHP; pools on demand). Code shared with other kinds of programs is in
//! `parts`. Tested with real PHP through the binary (`crates/e2e/tests/e2e/php.rs`); `pool` by
//! itself.

mod addresses;
mod idle;
mod own;
mod pool;
mod run;
mod running;
mod snapshot;
mod stream;
mod unframe;
mod working;

pub use idle::watch;
pub(crate) use own::{
    FIRST, PoolSpec, PoolSupervisor, Pools, PreparedPool, Revised, prepare, wanted_by_hosts,
};
pub use own::{PhpError, look_for, profiles};
pub use run::run;
pub use running::RunningRequest;
pub use snapshot::PoolSnapshot;

use addresses::PoolAddresses;
use own::PoolPlan;
pub use pool::pool_state::PoolState;
use pool::{Pool, PoolBounds, pool_state::Notifier};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use stream::ApplicationAddress;
use vermeil_fastcgi::request::RequestPersistence;
use vermeil_settings::php::{KEPT_IDLE, PhpOptions, PhpSource};

/// Idle time after which a connection to our own pool is closed, in milliseconds. Opening a
/// connection costs 30 µs, so a connection that is opened again every ten seconds costs three
/// millionths of a core.
const IDLE_MS: u64 = 10_000;

/// Age from which a connection to an external pool is not kept after a request, in milliseconds. A
/// child serves no other connection meanwhile, and the pool may have fewer children than this
/// server has places. Opening a connection costs 30 µs, a thousandth of this time.
const KEPT_AGE_MS: u64 = 30;

/// PHP, shared by all cores.
#[derive(Debug)]
pub struct Php {
    /// Number of the pool, by which the cores find its kept connections. No number is used again.
    number: usize,
    /// The queue for the pool's connections.
    pub pool: Arc<Pool>,
    address: ApplicationAddress,
    /// Whether connections are kept.
    persistence: RequestPersistence,
    /// Idle time after which a connection is closed, in milliseconds.
    idle_ms: u64,
    /// Age from which a connection is not kept, in milliseconds.
    age_ms: u64,
    /// `Some` for our own pool. If no process listens there, the pool is being restarted.
    restarts: Option<Arc<AtomicU64>>,
}

impl Php {
    /// The external pool `number`. Few connections are kept, and only briefly, because an idle
    /// connection holds a child that other clients may need.
    pub fn of_others(options: &PhpOptions, cores: usize, number: usize) -> Arc<Self> {
        let address = match &options.source {
            PhpSource::Unix(path) => ApplicationAddress::Unix(path.clone()),
            PhpSource::Tcp(addrs) => ApplicationAddress::Tcp(PoolAddresses::new(addrs.clone())),
            PhpSource::Own | PhpSource::Program(_) => unreachable!("a pool of our own is not of others"),
        };
        Arc::new(Self {
            number,
            pool: Pool::new(PoolBounds { idle_max: options.kept_max, ..bounds(options) }, cores),
            address,
            persistence: if options.kept_max > 0 {
                RequestPersistence::Keep
            } else {
                RequestPersistence::Close
            },
            idle_ms: KEPT_IDLE.as_millis() as u64,
            age_ms: KEPT_AGE_MS,
            restarts: None,
        })
    }

    /// The prepared pool, which is the server's first.
    pub fn own(options: &PhpOptions, prepared: &PreparedPool, cores: usize) -> Arc<Self> {
        Arc::new(Self {
            number: FIRST,
            pool: Pool::new(bounds(options), cores),
            idle_ms: IDLE_MS,
            age_ms: u64::MAX,
            address: prepared.plan.address(),
            persistence: RequestPersistence::Keep,
            restarts: Some(Arc::default()),
        })
    }

    /// The pool on demand of `plan`.
    fn on_demand(
        bounds: PoolBounds,
        plan: &PoolPlan,
        cores: usize,
        bell: &Arc<Notifier>,
        number: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            number,
            pool: Pool::on_demand(bounds, cores, bell, number),
            idle_ms: IDLE_MS,
            age_ms: u64::MAX,
            address: plan.address(),
            persistence: RequestPersistence::Keep,
            restarts: Some(Arc::default()),
        })
    }

    /// The number of the pool.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Whether the pool is our own.
    fn is_ours(&self) -> bool {
        self.restarts.is_some()
    }

    /// Whether the pool starts and stops while the server runs.
    fn is_on_demand(&self) -> bool {
        self.gate().is_some()
    }

    /// State and number of starts of a pool on demand.
    pub fn gate(&self) -> Option<(PoolState, u64)> {
        self.pool.gate()
    }

    /// The counts of the pool.
    pub fn snapshot(&self) -> PoolSnapshot {
        let restarts = self.restarts.as_ref().map_or(0, |restarts| restarts.load(Ordering::Relaxed));
        PoolSnapshot { restarts, ..self.pool.snapshot() }
    }
}

fn bounds(options: &PhpOptions) -> PoolBounds {
    let children = options.children.max(1);
    PoolBounds { connections_max: children, queue_max: options.queue_max, idle_max: children }
}
