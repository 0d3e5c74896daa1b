//! The connections that one core keeps, and the task that lets them go.
//!
//! The count that decides who may have one stands in `pool.rs`; this is where they are. Used last, first: those that
//! are not needed grow old and are closed.

use super::{Php, stream::Connection};
use crate::local;
use std::{collections::VecDeque, future::poll_fn, sync::Arc, task::Poll, time::Duration};
use vermeil::{now_ms, sleep};

/// How long a connection is kept that nobody uses, in milliseconds. Guess: between two clicks; opening one costs 30 µs.
pub(super) const IDLE_MS: u64 = 10_000;

/// How often old ones are looked for.
const LOOK: Duration = Duration::from_secs(1);

/// Connections between requests, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    kept: VecDeque<(Connection, u64)>,
}

impl Idle {
    pub(super) fn keep(&mut self, connection: Connection) {
        self.kept.push_back((connection, now_ms()));
    }

    /// The one used last.
    pub(super) fn take(&mut self) -> Option<Connection> {
        self.kept.pop_back().map(|(connection, _)| connection)
    }

    fn close_oldest(&mut self) {
        self.kept.pop_front();
    }

    fn has_old(&self) -> bool {
        self.kept.front().is_some_and(|(_, since_ms)| now_ms().saturating_sub(*since_ms) >= IDLE_MS)
    }
}

/// Closes what other cores need, and what nobody has used for long. Runs until it is cancelled.
pub(crate) async fn watch(php: Arc<Php>, core: usize) {
    let pool = &php.pool;
    let mut look = sleep(LOOK);
    loop {
        let reclaimed = poll_fn(|context| match pool.poll_reclaimed(core, context) {
            Poll::Ready(count) => Poll::Ready(count),
            Poll::Pending => std::pin::Pin::new(&mut look).poll(context).map(|()| 0),
        })
        .await;
        with_idle(|idle| (0..reclaimed).for_each(|_| idle.close_oldest()));
        pool.closed(reclaimed);
        if reclaimed == 0 {
            look.set(LOOK);
            while with_idle(|idle| idle.has_old()) && pool.retire(core) {
                with_idle(Idle::close_oldest);
            }
        }
    }
}

pub(super) fn with_idle<R>(f: impl FnOnce(&mut Idle) -> R) -> R {
    local::with(|local| {
        let php = local.programs.as_mut().and_then(|programs| programs.php.as_mut());
        f(&mut php.expect("PHP is what is kept").idle)
    })
}
