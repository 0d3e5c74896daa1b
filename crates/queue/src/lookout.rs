//! The idle coordinator of cores that are near each other: which core searches for work, and which
//! core watches.
//!
//! At most one core searches at a time. The searcher finds any stealable work, so a producer that
//! enqueues during a search need not wake another core. A searcher must look once more after ending
//! the search. A fence between the end and the last look pairs with a fence of the producer that
//! finds a search going on. So either the producer sees that the search has ended, or the last look
//! sees the producer's token. At most one sleeping core watches the busy cores, and is called at
//! most once per interval.
//!
//! Leaves out when a search is worthwhile and which core to wake. Checked in `model/lookout.rs`.

use crate::{
    canary::{Bug, planted},
    sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
};

/// No core watches.
const NOBODY: u32 = u32::MAX;

/// The searcher and the watcher of a group of cores. All cores of the group read these words, which
/// share a cache line of their own.
pub struct Lookout {
    searching: AtomicBool,
    /// The core that watches, or `NOBODY`.
    watcher: AtomicU32,
    /// The time of the last call for a watcher, on the callers' clock.
    called: AtomicU64,
}

impl Default for Lookout {
    fn default() -> Self {
        Self { searching: AtomicBool::new(false), watcher: AtomicU32::new(NOBODY), called: AtomicU64::new(0) }
    }
}

impl Lookout {
    /// Begins a search, by this core or by a core that the caller wakes. Returns whether no other
    /// core searches. As with [`is_searching`](Self::is_searching), a search that is going on finds
    /// every token queued before.
    pub fn begin_search(&self) -> bool {
        if !planted(Bug::BeginSearchWithoutFence) {
            // Pairs with the fence in `end_search`.
            fence(Ordering::SeqCst);
        }
        !self.searching.swap(true, Ordering::Relaxed)
    }

    /// Ends the search. The searcher must look once more, because tokens queued during the search
    /// have woken no core.
    pub fn end_search(&self) {
        self.searching.store(false, Ordering::Relaxed);
        if !planted(Bug::EndSearchWithoutFence) {
            // Pairs with the fence in `is_searching`.
            fence(Ordering::SeqCst);
        }
    }

    /// Asked by a producer that has just queued a token: whether a core is searching and will find
    /// the token.
    pub fn is_searching(&self) -> bool {
        self.searching.load(Ordering::Relaxed) && {
            // Pairs with the fence in `end_search`.
            fence(Ordering::SeqCst);
            self.searching.load(Ordering::Relaxed)
        }
    }

    /// Whether a core watches; a hint.
    pub fn is_watched(&self) -> bool {
        self.watcher.load(Ordering::Relaxed) != NOBODY
    }

    /// Core `core` starts to watch; false if another core watches.
    pub fn begin_watch(&self, core: u32) -> bool {
        self.watcher.compare_exchange(NOBODY, core, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Core `core` stops watching, if the core did.
    pub fn end_watch(&self, core: u32) {
        let _ = self.watcher.compare_exchange(core, NOBODY, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether a core should be woken to watch: true at most once in `every`, by the callers'
    /// clock, which reads `now`.
    pub fn calls_watcher(&self, now: u64, every: u64) -> bool {
        let called = self.called.load(Ordering::Relaxed);
        now.saturating_sub(called) > every
            && self.called.compare_exchange(called, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Time since `calls_watcher` last returned true.
    pub fn since_call(&self, now: u64) -> u64 {
        now.saturating_sub(self.called.load(Ordering::Relaxed))
    }
}
