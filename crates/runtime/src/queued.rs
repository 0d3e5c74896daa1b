//! How many posted events a core has, and how many tasks the runtime: what bounds the former, and what a runtime that drains
//! waits for.
//!
//! An event counts on the core that its color was on when it was posted, until it begins to run or is dropped, wherever that
//! is. A task counts on the core that spawned it, and its end on the core where it ended: only their sum over all cores means
//! something. What a core itself does, and that is most of it, is counted without an operation that locks the line: it writes
//! two numbers of its own, and the others share a third. Tested in `tests/handler.rs`, and by everything that drains.

use crate::{core::current_of, shared::Shared};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// What has come and gone at one core.
#[derive(Default)]
pub(crate) struct Queued {
    /// Come by the core itself; written by it alone.
    come: AtomicU64,
    /// Gone by the core itself; written by it alone.
    gone: AtomicU64,
    /// Come by others, less what went by others.
    by_others: AtomicI64,
}

impl Queued {
    /// What is there: exact when nothing comes and goes meanwhile.
    pub(crate) fn len(&self) -> usize {
        // What has gone is read first, so that what comes and goes meanwhile counts as there.
        let gone = self.gone.load(Ordering::Acquire);
        left(self.come(), gone)
    }

    /// What has come, less what went by others.
    fn come(&self) -> u64 {
        self.come.load(Ordering::Acquire).wrapping_add_signed(self.by_others.load(Ordering::Acquire))
    }

    /// One more has come, by the core itself.
    #[inline]
    fn come_here(&self) {
        self.come.store(self.come.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// One has gone, by the core itself.
    #[inline]
    fn gone_here(&self) {
        // Release: whoever sees it sees that it came.
        self.gone.store(self.gone.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

/// What is left of what has come; none when more has gone, by what was read.
fn left(come: u64, gone: u64) -> usize {
    usize::try_from(come.wrapping_sub(gone).cast_signed()).unwrap_or(0)
}

impl Shared {
    /// One more event waits on core `index`, unless so many do that `bound` is reached: whether it was counted.
    #[inline]
    pub(crate) fn enter(&self, index: u32, bound: usize) -> bool {
        let queued = &self.core(index).queued;
        if current_of(self, |core| core.index.0 == index) == Some(true) {
            let enters = queued.len() < bound;
            if enters {
                queued.come_here();
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
            queued.gone_here();
        } else {
            queued.by_others.fetch_sub(1, Ordering::Release);
        }
    }

    /// A task was spawned.
    #[inline]
    pub(crate) fn task_begins(&self) {
        if current_of(self, |core| core.mine().tasks_alive.come_here()).is_none() {
            self.core(0).tasks_alive.by_others.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A task has ended.
    #[inline]
    pub(crate) fn task_ends(&self) {
        if current_of(self, |core| core.mine().tasks_alive.gone_here()).is_none() {
            self.core(0).tasks_alive.by_others.fetch_sub(1, Ordering::Release);
        }
    }

    /// Tasks that have not ended: exact when none begins and none ends meanwhile.
    pub(crate) fn tasks_alive(&self) -> usize {
        // As in `Queued::len`: a task may come at a core that was looked at and go at one that was not.
        let gone = self.cores.iter().map(|core| core.tasks_alive.gone.load(Ordering::Acquire)).sum();
        left(self.cores.iter().fold(0, |come, core| come.wrapping_add(core.tasks_alive.come())), gone)
    }
}
