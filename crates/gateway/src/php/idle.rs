//! Idle connections of a core to all pools, and the task that closes them.
//!
//! `pool.rs` counts the connections and decides which request gets one; this file holds them. The
//! connection used last is reused first, so that surplus connections grow old and are closed.

use super::{Php, stream::PhpConnection};
use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    future::poll_fn,
    mem,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};
use vermeil::{now_ms, sleep};

/// Interval of checks while no connection is kept: practically never.
const NEVER: Duration = Duration::from_secs(3600);

thread_local! {
    static IDLE: RefCell<IdleConnections> = RefCell::default();
}

/// The idle connections of a core.
#[derive(Default)]
pub(super) struct IdleConnections {
    /// By pool number; only pools with idle connections.
    pools: HashMap<usize, OfPool>,
    janitor: Option<Waker>,
    /// Whether the janitor must watch another pool.
    is_changed: bool,
}

struct OfPool {
    php: Arc<Php>,
    /// The oldest first.
    kept: VecDeque<KeptConnection>,
}

/// An idle connection.
struct KeptConnection {
    connection: PhpConnection,
    /// The start of the idle time.
    since_ms: u64,
}

impl KeptConnection {
    /// The idle time, in milliseconds.
    fn idle_ms(&self) -> u64 {
        now_ms().saturating_sub(self.since_ms)
    }
}

impl IdleConnections {
    pub(super) fn keep(&mut self, php: &Arc<Php>, connection: PhpConnection) {
        let of_pool = self.pools.entry(php.number).or_insert_with(|| {
            self.is_changed = true;
            self.janitor.take().into_iter().for_each(Waker::wake);
            OfPool { php: php.clone(), kept: VecDeque::new() }
        });
        of_pool.kept.push_back(KeptConnection { connection, since_ms: now_ms() });
    }

    /// Takes the connection that was used last, of those whose application waits for a request. If
    /// no application waits, closes the connection that was used last, because the new connection
    /// takes its place.
    pub(super) fn take_newest(&mut self, php: &Php) -> Option<PhpConnection> {
        let kept = &mut self.pools.get_mut(&php.number)?.kept;
        let waiting = kept.iter().rposition(|kept| kept.connection.is_read());
        let taken = kept.remove(waiting.unwrap_or(kept.len().checked_sub(1)?))?;
        waiting.map(|_| taken.connection)
    }

    /// Takes the connection that has been idle for the longest time.
    pub(super) fn take_oldest(&mut self, php: &Php) -> Option<PhpConnection> {
        self.pools.get_mut(&php.number)?.kept.pop_front().map(|kept| kept.connection)
    }

    /// Reports the pools that other cores need, and the number of connections to close for each.
    /// Also ready when another pool must be watched.
    fn poll_reclaimed(&mut self, core: usize, context: &mut Context<'_>) -> Poll<Vec<(Arc<Php>, usize)>> {
        self.janitor = Some(context.waker().clone());
        if mem::take(&mut self.is_changed) {
            return Poll::Ready(Vec::new());
        }
        let reclaimed = self.pools.values().filter_map(|OfPool { php, .. }| {
            match php.pool.poll_reclaimed(core, context) {
                Poll::Ready(count) => Some((php.clone(), count)),
                Poll::Pending => None,
            }
        });
        let reclaimed: Vec<_> = reclaimed.collect();
        if reclaimed.is_empty() { Poll::Pending } else { Poll::Ready(reclaimed) }
    }

    fn close(&mut self, php: &Php, count: usize) {
        let Some(of_pool) = self.pools.get_mut(&php.number) else { return };
        of_pool.kept.drain(..count.min(of_pool.kept.len()));
    }

    /// Closes connections that have been idle too long, and forgets pools without idle connections.
    fn close_old(&mut self, core: usize) {
        for OfPool { php, kept } in self.pools.values_mut() {
            let is_old = |kept: &KeptConnection| kept.idle_ms() >= php.idle_ms;
            while kept.front().is_some_and(is_old) && php.pool.retire(core) {
                kept.pop_front();
            }
        }
        self.pools.retain(|_, of_pool| !of_pool.kept.is_empty());
    }

    /// Time until the next connection is too old.
    fn next_old(&self) -> Duration {
        let due = self
            .pools
            .values()
            .filter_map(|of_pool| Some(of_pool.kept.front()?.since_ms + of_pool.php.idle_ms));
        due.min().map_or(NEVER, |due_ms| Duration::from_millis(due_ms.saturating_sub(now_ms()).max(1)))
    }
}

/// Closes connections that other cores need, and connections idle for too long. Runs until
/// cancelled.
pub async fn watch(core: usize) {
    let mut look = sleep(NEVER);
    loop {
        let reclaimed = poll_fn(|context| match with_idle(|idle| idle.poll_reclaimed(core, context)) {
            Poll::Ready(reclaimed) => Poll::Ready(reclaimed),
            Poll::Pending => std::pin::Pin::new(&mut look).poll(context).map(|()| Vec::new()),
        })
        .await;
        for (php, count) in reclaimed {
            with_idle(|idle| idle.close(&php, count));
            php.pool.closed(count);
        }
        let next = with_idle(|idle| {
            idle.close_old(core);
            idle.next_old()
        });
        look.set(next);
    }
}

pub(super) fn with_idle<R>(f: impl FnOnce(&mut IdleConnections) -> R) -> R {
    IDLE.with_borrow_mut(f)
}
