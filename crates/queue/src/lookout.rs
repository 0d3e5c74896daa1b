//! Who looks for work and who watches, among cores that are near each other.
//!
//! At most one core is woken to look for work at a time, since one that looks finds what is worth it for all: whoever queues
//! something meanwhile wakes nobody. So one that ends its search must look once more afterwards, and between the two stands a fence,
//! paired with one of whoever finds a search going on: either that one sees that the search has ended, or the last look sees what
//! it has queued. At most one sleeping core watches those that are busy, and is called at most once in a time.
//!
//! Leaves out what is worth a search and who is woken for it. Checked in `model/lookout.rs`.

use crate::{
    canary::{Bug, planted},
    sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
};

/// Nobody watches.
const NOBODY: u32 = u32::MAX;

/// The searcher and the watcher of some cores; words that all of them read, on a line of their own.
pub struct Lookout {
    searching: AtomicBool,
    /// The core that watches, or `NOBODY`.
    watcher: AtomicU32,
    /// When somebody was called to watch last, on the callers' clock.
    called: AtomicU64,
}

impl Default for Lookout {
    fn default() -> Self {
        Self { searching: AtomicBool::new(false), watcher: AtomicU32::new(NOBODY), called: AtomicU64::new(0) }
    }
}

impl Lookout {
    /// A core looks for work from now on, or is to be woken to do so; whether no other does. As with
    /// [`is_searching`](Self::is_searching), one that does finds what was queued before.
    pub fn begin_search(&self) -> bool {
        if !planted(Bug::BeginSearchWithoutFence) {
            // Pairs with the fence in `end_search`.
            fence(Ordering::SeqCst);
        }
        !self.searching.swap(true, Ordering::Relaxed)
    }

    /// The search has ended. Who has searched must look once more: what was queued meanwhile has woken nobody.
    pub fn end_search(&self) {
        self.searching.store(false, Ordering::Relaxed);
        if !planted(Bug::EndSearchWithoutFence) {
            // Pairs with the fence in `is_searching`.
            fence(Ordering::SeqCst);
        }
    }

    /// To be asked by whoever has just queued something: whether a core looks for work and will find it.
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

    /// Core `core` watches from now on; false if another does.
    pub fn begin_watch(&self, core: u32) -> bool {
        self.watcher.compare_exchange(NOBODY, core, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Core `core` watches no longer, if it did.
    pub fn end_watch(&self, core: u32) {
        let _ = self.watcher.compare_exchange(core, NOBODY, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether somebody is to be woken to watch: true at most once in `every`, by the callers' clock, which says `now`.
    pub fn calls_watcher(&self, now: u64, every: u64) -> bool {
        let called = self.called.load(Ordering::Relaxed);
        now.saturating_sub(called) > every
            && self.called.compare_exchange(called, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// How long ago that was true last.
    pub fn since_call(&self, now: u64) -> u64 {
        now.saturating_sub(self.called.load(Ordering::Relaxed))
    }
}
