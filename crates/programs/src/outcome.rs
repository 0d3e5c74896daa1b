//! The outcome of a run, and the detection of its end.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread::Thread,
    time::{Duration, Instant},
};

/// A run of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramOutcome {
    /// Events of the program, without the runtime's events.
    pub events: u64,
    /// From the first post until the end of the last event.
    pub elapsed: Duration,
    /// Checksum of all results: a function of the program's size alone.
    pub checksum: u64,
}

impl ProgramOutcome {
    /// Events per second.
    pub fn throughput(&self) -> f64 {
        self.events as f64 / self.elapsed.as_secs_f64()
    }
}

/// Adds up the parts of a result, from any core, and wakes the thread that waits for all parts.
#[derive(Debug)]
pub struct OutcomeTally {
    missing: AtomicU64,
    sum: AtomicU64,
    waiter: Thread,
    start: Instant,
}

impl OutcomeTally {
    /// Expects `parts` parts, for the calling thread to wait for; starts the clock.
    pub fn new(parts: u64) -> Self {
        Self {
            missing: AtomicU64::new(parts),
            sum: AtomicU64::new(0),
            waiter: std::thread::current(),
            start: Instant::now(),
        }
    }

    /// Adds a part. Sums wrap, so their order does not matter.
    pub fn add(&self, part: u64) {
        self.sum.fetch_add(part, Ordering::Relaxed);
        // Pairs with the load in `wait`: a thread that sees the last part sees every sum.
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waiter.unpark();
        }
    }

    /// Waits for the last part; call from the thread that made the tally.
    pub fn wait(&self, events: u64) -> ProgramOutcome {
        while self.missing.load(Ordering::Acquire) > 0 {
            std::thread::park();
        }
        ProgramOutcome { events, elapsed: self.start.elapsed(), checksum: self.sum.load(Ordering::Relaxed) }
    }
}
