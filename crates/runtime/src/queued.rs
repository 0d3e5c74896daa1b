//! How many posted events a core has: what bounds them, and what a runtime that drains waits for.
//!
//! An event counts on the core that its color was on when it was posted, until it begins to run or is dropped, wherever that
//! is. What the core itself does, and that is most of it, is counted without an operation that locks the line: it writes two
//! numbers of its own, and the others share a third. Tested in `tests/handler.rs`, and by everything that drains.

use crate::{core::current_of, shared::Shared};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The events of one core.
#[derive(Default)]
pub(crate) struct Queued {
    /// Posted by the core to itself; written by it alone.
    posted: AtomicU64,
    /// Begun or dropped by the core; written by it alone.
    begun: AtomicU64,
    /// Posted by others, less what others began or dropped.
    by_others: AtomicI64,
}

impl Queued {
    /// Events that wait: exact when nobody posts and nothing begins meanwhile.
    pub(crate) fn len(&self) -> usize {
        // What has begun is read first, so that what is posted and begins meanwhile counts as waiting.
        let begun = self.begun.load(Ordering::Acquire);
        let posted = self.posted.load(Ordering::Acquire);
        let waiting = posted.wrapping_sub(begun).cast_signed() + self.by_others.load(Ordering::Acquire);
        usize::try_from(waiting).unwrap_or(0)
    }
}

impl Shared {
    /// One more event waits on core `index`, unless so many do that `bound` is reached: whether it was counted.
    #[inline]
    pub(crate) fn enter(&self, index: u32, bound: usize) -> bool {
        let queued = &self.core(index).queued;
        if current_of(self, |core| core.index.0 == index) == Some(true) {
            let enters = queued.len() < bound;
            if enters {
                queued.posted.store(queued.posted.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
            return enters;
        }
        // Counted before it is compared: others may do the same at this moment, and all of them may not come in.
        queued.by_others.fetch_add(1, Ordering::Relaxed);
        let enters = queued.len() <= bound;
        if !enters {
            queued.by_others.fetch_sub(1, Ordering::Relaxed);
        }
        enters
    }

    /// An event that was counted on core `index` begins, or is dropped.
    #[inline]
    pub(crate) fn leave(&self, index: u32) {
        let queued = &self.core(index).queued;
        if current_of(self, |core| core.index.0 == index) == Some(true) {
            // Release: whoever sees it sees that it was posted.
            queued.begun.store(queued.begun.load(Ordering::Relaxed) + 1, Ordering::Release);
        } else {
            queued.by_others.fetch_sub(1, Ordering::Release);
        }
    }
}
