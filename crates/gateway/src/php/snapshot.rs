//! Counts of a pool, for status and metrics.

use super::pool::PoolBounds;
use vermeil_exchange::ProgramTimes;

/// The counts of a pool at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolSnapshot {
    /// Connections that may be open at once: the children of the pool.
    pub connections_max: usize,
    /// Connections open.
    pub open: usize,
    /// Connections that serve a request.
    pub busy: usize,
    /// Requests waiting.
    pub queue: usize,
    /// Requests that may wait.
    pub queue_max: usize,
    /// Requests that got their turn.
    pub requests: u64,
    /// Requests refused because the queue was full.
    pub refused: u64,
    /// Requests that gave up waiting: out of time, or the client had gone.
    pub given_up: u64,
    /// Requests repeated on a new connection, because a kept connection was stale.
    pub retried: u64,
    /// Requests that PHP did not answer properly.
    pub failed: u64,
    /// Time from asking for a turn to getting the turn, all requests together, in nanoseconds.
    pub wait_ns_sum: u64,
    /// The longest of these waits, in nanoseconds.
    pub wait_ns_max: u64,
    /// Time from the turn to the end of the answer, all requests together, in nanoseconds.
    pub service_ns_sum: u64,
    /// The longest of these times, in nanoseconds.
    pub service_ns_max: u64,
    /// Requests whose answers have ended.
    pub served: u64,
    /// Number of restarts after the pool ended; 0 for an external pool.
    pub restarts: u64,
}

impl PoolSnapshot {
    /// Expected wait of the last request in the queue, in nanoseconds, at the mean service time so
    /// far. 0 until a first request was served.
    pub fn waiting_ns(&self) -> u64 {
        let each = self.service_ns_sum.checked_div(self.served).unwrap_or_default();
        (self.queue as u64).saturating_mul(each) / self.connections_max.max(1) as u64
    }
}

/// The counts that only grow.
#[derive(Debug, Default)]
pub struct PhpCounters {
    pub requests: u64,
    pub refused: u64,
    pub given_up: u64,
    pub retried: u64,
    pub failed: u64,
    served: u64,
    wait_ns_sum: u64,
    wait_ns_max: u64,
    service_ns_sum: u64,
    service_ns_max: u64,
    /// `None` before the first request, because most pools of many hosts have none.
    times: Option<Box<ProgramTimes>>,
}

impl PhpCounters {
    pub fn waited(&mut self, ns: u64) {
        self.requests += 1;
        self.wait_ns_sum += ns;
        self.wait_ns_max = self.wait_ns_max.max(ns);
        self.times.get_or_insert_default().wait.count(ns);
    }

    pub fn served(&mut self, ns: u64) {
        self.served += 1;
        self.service_ns_sum += ns;
        self.service_ns_max = self.service_ns_max.max(ns);
        self.times.get_or_insert_default().run.count(ns);
    }

    /// The times of the requests.
    pub fn times(&self) -> ProgramTimes {
        self.times.as_deref().cloned().unwrap_or_default()
    }

    pub fn snapshot(&self, bounds: PoolBounds, open: usize, idle: usize, queue: usize) -> PoolSnapshot {
        PoolSnapshot {
            connections_max: bounds.connections_max,
            open,
            busy: open - idle,
            queue,
            queue_max: bounds.queue_max,
            requests: self.requests,
            refused: self.refused,
            given_up: self.given_up,
            retried: self.retried,
            failed: self.failed,
            served: self.served,
            wait_ns_sum: self.wait_ns_sum,
            wait_ns_max: self.wait_ns_max,
            service_ns_sum: self.service_ns_sum,
            service_ns_max: self.service_ns_max,
            restarts: 0,
        }
    }
}
