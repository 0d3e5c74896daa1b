//! Counters with a single writer, and the numbers that stand for no handler and no core.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use vermeil_queue::RunFlag;

/// Counters that only the core writes.
// In this order, so that the words that each batch writes stand on one cache line.
#[derive(Default)]
#[repr(C)]
pub(crate) struct CoreCounters {
    pub(crate) activations: AtomicU64,
    pub(crate) events: AtomicU64,
    /// The handler of the last event that began, plus one; [`IDLE`] while no event runs.
    pub(crate) running: AtomicU32,
    /// Whether the core runs a color.
    pub(crate) runs: RunFlag,
    pub(crate) io: IoCounters,
    pub(crate) panics: AtomicU64,
    pub(crate) wakes: AtomicU64,
    pub(crate) moves: AtomicU64,
    pub(crate) rounds: AtomicU64,
    pub(crate) steal: StealCounters,
}

/// Counters of a core's looks at its I/O.
#[derive(Default)]
pub(crate) struct IoCounters {
    pub(crate) polls: AtomicU64,
    pub(crate) parks: AtomicU64,
    pub(crate) completions: AtomicU64,
    pub(crate) driver_errors: AtomicU64,
}

/// Counters of a core as a thief, and of the thieves that the core has woken.
#[derive(Default)]
pub(crate) struct StealCounters {
    pub(crate) steals: AtomicU64,
    pub(crate) stolen_ns: AtomicU64,
    pub(crate) steal_ns: AtomicU64,
    pub(crate) explored_ns: AtomicU64,
    pub(crate) searches: AtomicU64,
    pub(crate) thieves_woken: AtomicU64,
}

/// No handler's event runs.
pub(crate) const IDLE: u32 = 0;

/// No core; also valid truncated to the two bytes of a label's core.
pub(crate) const NOBODY: u32 = u32::MAX;

/// Adds to a counter that only the calling core writes.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}
