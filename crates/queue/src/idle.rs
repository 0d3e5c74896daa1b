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
//! The core that watches, or that was called to watch, has the duty to look at the busy cores. A
//! core with the duty that runs work first gives the duty up: the next call may then come at once,
//! because otherwise no core would watch for the rest of the interval. The core must look once more
//! after giving up the duty. Fences pair as for a search.
//!
//! Leaves out when a search is worthwhile and which core to wake. Checked in `model/idle.rs`.

use crate::{
    canary::{Bug, planted},
    sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
};

/// No core watches or has the duty.
const NOBODY: u32 = u32::MAX;

/// The searcher and the watcher of a group of cores. All cores of the group read these words, which
/// share a cache line of their own.
pub struct IdleCoordinator {
    searching: AtomicBool,
    /// The core that watches, or `NOBODY`.
    watcher: AtomicU32,
    /// The time of the last call for a watcher, on the callers' clock.
    called: AtomicU64,
    /// The core that was called last or watched last and has run nothing since, or `NOBODY`.
    duty: AtomicU32,
}

impl Default for IdleCoordinator {
    fn default() -> Self {
        Self {
            searching: AtomicBool::new(false),
            watcher: AtomicU32::new(NOBODY),
            called: AtomicU64::new(0),
            duty: AtomicU32::new(NOBODY),
        }
    }
}

impl IdleCoordinator {
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

    /// Whether a core watches. For a producer that has just queued a token, the watcher will see
    /// the token: after its watch, or in its look after [`end_duty`](Self::end_duty).
    pub fn is_watched(&self) -> bool {
        self.watcher.load(Ordering::Relaxed) != NOBODY && {
            // Pairs with the fence in `end_duty`.
            fence(Ordering::SeqCst);
            self.watcher.load(Ordering::Relaxed) != NOBODY
        }
    }

    /// Core `core` starts to watch, and has the duty; false if another core watches.
    pub fn begin_watch(&self, core: u32) -> bool {
        let begins =
            self.watcher.compare_exchange(NOBODY, core, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if begins {
            self.duty.store(core, Ordering::Relaxed);
        }
        begins
    }

    /// Core `core` stops watching, if the core did. The core keeps the duty: it looks at the busy
    /// cores next, or gives the duty up.
    pub fn end_watch(&self, core: u32) {
        if self.watcher.load(Ordering::Relaxed) == core {
            self.duty.store(core, Ordering::Relaxed);
            self.watcher.store(NOBODY, Ordering::Relaxed);
        }
    }

    /// Core `core` is woken to search and then to watch: the core has the duty.
    pub fn give_duty(&self, core: u32) {
        self.duty.store(core, Ordering::Relaxed);
    }

    /// No core could be woken, so no core has the duty.
    pub fn take_back_duty(&self) {
        self.duty.store(NOBODY, Ordering::Relaxed);
    }

    /// Core `core`, which was woken, runs work from now on. Returns whether the core had the duty.
    /// Such a core must look once more, and wake another core if there is a token to watch, because
    /// a producer may have seen the duty.
    pub fn end_duty(&self, core: u32) -> bool {
        // Pairs with the fence in `Parking::must_wake`: the core sees that it was called.
        fence(Ordering::Acquire);
        let had = self.duty.load(Ordering::Relaxed) == core
            && self.duty.compare_exchange(core, NOBODY, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if had && !planted(Bug::EndDutyWithoutFence) {
            // Pairs with the fences in `is_watched` and `calls_watcher`.
            fence(Ordering::SeqCst);
        }
        had
    }

    /// Asked by a producer that has just queued a token: whether a core should be woken to watch.
    /// True at most once in `every`, by the callers' clock, which reads `now`, or at once if no
    /// core has the duty. Otherwise the core with the duty will see the token.
    pub fn calls_watcher(&self, now: u64, every: u64) -> bool {
        let due = || {
            let called = self.called.load(Ordering::Relaxed);
            let is_free = self.duty.load(Ordering::Relaxed) == NOBODY;
            (is_free || now.saturating_sub(called) > every).then_some(called)
        };
        let called = due().or_else(|| {
            // Pairs with the fence in `end_duty`.
            fence(Ordering::SeqCst);
            due()
        });
        called.is_some_and(|called| {
            self.called.compare_exchange(called, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        })
    }

    /// Time since `calls_watcher` last returned true.
    pub fn since_call(&self, now: u64) -> u64 {
        now.saturating_sub(self.called.load(Ordering::Relaxed))
    }
}
