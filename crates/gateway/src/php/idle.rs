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

impl OfPool {
    /// Closes the oldest connection whose child waits for a request, because that child accepts
    /// another connection at once. Without such a connection, closes the oldest, and the pool may
    /// ask another core to free a child.
    fn close_one(&mut self) {
        let waiting = self.kept.iter().position(|kept| kept.connection.is_read());
        if let Some(closed) = self.kept.remove(waiting.unwrap_or_default())
            && waiting.is_none()
        {
            closed.connection.close(&self.php);
        }
    }
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
    /// no application waits, closes a connection, because the new connection takes its place.
    pub(super) fn take_newest(&mut self, php: &Php) -> Option<PhpConnection> {
        let of_pool = self.pools.get_mut(&php.number)?;
        let Some(waiting) = of_pool.kept.iter().rposition(|kept| kept.connection.is_read()) else {
            of_pool.close_one();
            return None;
        };
        of_pool.kept.remove(waiting).map(|kept| kept.connection)
    }

    /// Closes a connection, because a new connection takes its place.
    pub(super) fn close_one(&mut self, php: &Php) {
        if let Some(of_pool) = self.pools.get_mut(&php.number) {
            of_pool.close_one();
        }
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
        (0..count).for_each(|_| of_pool.close_one());
    }

    /// Closes connections that have been idle too long, and forgets pools without idle connections.
    fn close_old(&mut self, core: usize) {
        for OfPool { php, kept } in self.pools.values_mut() {
            let php = &*php;
            let is_old = |kept: &KeptConnection| kept.idle_ms() >= php.idle_ms;
            while kept.front().is_some_and(is_old) && php.pool.retire(core) {
                if let Some(old) = kept.pop_front() {
                    old.connection.close(php);
                }
                php.pool.closed(1);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::{Last, ProgramWriter as _};
    use bytes::Bytes;
    use std::os::unix::net::UnixListener;
    use vermeil::{Runtime, yield_now};
    use vermeil_fastcgi::request::RequestPersistence;
    use vermeil_settings::php::{PhpOptions, PhpSource};

    /// A connection whose child waits for a request.
    async fn waiting(php: &Php) -> PhpConnection {
        PhpConnection::open(&php.address, Duration::from_secs(5)).await.expect("it listens")
    }

    /// A connection whose child has not read the last record.
    async fn working(php: &Php) -> PhpConnection {
        let mut connection = waiting(php).await;
        {
            let (mut writer, _reader) = connection.begin(RequestPersistence::Keep, |_| {});
            writer.write(Bytes::new(), Last::Yes).await.expect("room");
        }
        while connection.is_read() {
            yield_now().await;
        }
        connection
    }

    /// Regression: a request that cannot be repeated closed the connection of a child that worked,
    /// and then waited until a connection of a free child was old.
    #[test]
    fn child_that_waits_is_used_before_child_that_works() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("php.sock");
        // No child accepts, so no child reads.
        let _listener = UnixListener::bind(&path).expect("a socket");
        let others = Php::of_others(&PhpOptions::new(PhpSource::Unix(path), 1), 1, 1);
        let others = Arc::into_inner(others).expect("not shared");
        let php = Arc::new(Php { restarts: Some(Arc::default()), ..others });
        let runtime = Runtime::builder().cpus([0]).build().expect("it starts");
        let checked = runtime.handle().spawn(async move {
            let mut idle = IdleConnections::default();
            idle.keep(&php, working(&php).await);
            idle.keep(&php, waiting(&php).await);
            idle.close_one(&php);
            assert!(!php.pool.has_working(), "the child waited");
            assert!(idle.take_newest(&php).is_none(), "the other child works");
            assert!(php.pool.has_working(), "the pool does not stop meanwhile");
        });
        checked.wait().expect("no panic");
    }
}
