//! Counts per core: accepted connections, connections accepted for a stalled neighbour, connections
//! moved from a neighbour between requests, and, for a sample, whether the core's cpu handles their
//! packets. Only the core writes its counters, each core on its own cache lines.

use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering};

/// The core asks the kernel for the cpu of one connection in this many, because the question is a
/// system call. A thousand connections give 62 samples, so the standard error of a share is at most
/// six percent points.
const SAMPLE: u64 = 16;

/// How a connection came to the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// From the core's own socket.
    Own,
    /// From a neighbour's socket.
    TakenOver,
    /// From a neighbour that had accepted the connection, while it waited for a request.
    Moved,
    /// Sampled: this core's cpu handles the packets.
    SampledHere,
    /// Sampled: another cpu handles the packets.
    SampledElsewhere,
}

/// The connections of a core. Counts are since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptCounts {
    /// All accepted connections.
    pub accepted: u64,
    /// Of all accepted connections, the connections that a stalled neighbour did not accept.
    pub taken_over: u64,
    /// Connections that a neighbour had accepted and this core took while they waited.
    pub moved: u64,
    /// Accepted connections in the sample.
    pub sampled: u64,
    /// Connections in the sample whose packets this core's cpu handles.
    pub sampled_here: u64,
}

#[derive(Debug, Default)]
struct Words {
    accepted: AtomicU64,
    taken_over: AtomicU64,
    moved: AtomicU64,
    sampled: AtomicU64,
    sampled_here: AtomicU64,
}

#[derive(Debug)]
pub(super) struct BalanceCounters {
    cores: Box<[CachePadded<Words>]>,
}

impl BalanceCounters {
    pub(super) fn new(cores: usize) -> Self {
        Self { cores: (0..cores).map(|_| CachePadded::default()).collect() }
    }

    pub(super) fn count(&self, core: usize, what: Accepted) {
        let words = &self.cores[core];
        match what {
            Accepted::Own => add(&words.accepted),
            Accepted::TakenOver => {
                add(&words.accepted);
                add(&words.taken_over);
            }
            Accepted::Moved => add(&words.moved),
            Accepted::SampledHere => {
                add(&words.sampled);
                add(&words.sampled_here);
            }
            Accepted::SampledElsewhere => add(&words.sampled),
        }
    }

    pub(super) fn is_sample(&self, core: usize) -> bool {
        self.cores[core].accepted.load(Ordering::Relaxed) % SAMPLE == 1
    }

    pub(super) fn all(&self) -> Vec<AcceptCounts> {
        (0..self.cores.len()).map(|core| self.of(core)).collect()
    }

    pub(super) fn of(&self, core: usize) -> AcceptCounts {
        let get = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let words = &self.cores[core];
        AcceptCounts {
            accepted: get(&words.accepted),
            taken_over: get(&words.taken_over),
            moved: get(&words.moved),
            sampled: get(&words.sampled),
            sampled_here: get(&words.sampled_here),
        }
    }
}

/// Only the owning core writes these words.
fn add(word: &AtomicU64) {
    word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_contains_the_first_connection() {
        let counters = BalanceCounters::new(1);
        let mut samples = 0;
        for _ in 0..2 * SAMPLE {
            counters.count(0, Accepted::Own);
            samples += u64::from(counters.is_sample(0));
        }
        counters.count(0, Accepted::TakenOver);
        counters.count(0, Accepted::Moved);
        counters.count(0, Accepted::SampledHere);
        counters.count(0, Accepted::SampledElsewhere);
        assert_eq!(samples, 2);
        let expected = AcceptCounts { accepted: 33, taken_over: 1, moved: 1, sampled: 2, sampled_here: 1 };
        assert_eq!(counters.all(), [expected]);
    }
}
