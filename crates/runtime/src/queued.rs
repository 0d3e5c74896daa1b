//! How many posted events a core has, and how many tasks the runtime: what bounds the former, and what a runtime that drains
//! waits for.
//!
//! An event counts on the core that its color was on when it was posted, until it begins to run or is dropped, wherever that
//! is. A task counts on the core that spawned it, and its end on the core where it ended: only their sum over all cores means
//! something. How that is counted is the queue's `tally.rs`. Who waits for room counts too: `room.rs`. Tested in `tests/handler.rs`, and by everything that drains.

use crate::{core::current_of, shared::Shared};
use vermeil_queue::Tally;

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
        queued.come_elsewhere();
        let enters = queued.len() <= bound;
        if !enters && queued.take_back() {
            self.let_in(index);
        }
        enters
    }

    /// An event that was counted on core `index` begins, or is dropped.
    #[inline]
    pub(crate) fn leave(&self, index: u32) {
        let queued = &self.core(index).queued;
        if current_of(self, |core| core.index.0 == index) == Some(true) {
            queued.gone_here();
        } else if queued.gone_elsewhere() {
            self.let_in(index);
        }
    }

    /// A task was spawned.
    #[inline]
    pub(crate) fn task_begins(&self) {
        if current_of(self, |core| core.mine().tasks_alive.come_here()).is_none() {
            self.core(0).tasks_alive.come_elsewhere();
        }
    }

    /// A task has ended.
    #[inline]
    pub(crate) fn task_ends(&self) {
        if current_of(self, |core| core.mine().tasks_alive.gone_here()).is_none() {
            self.core(0).tasks_alive.gone_elsewhere();
        }
    }

    /// Tasks that have not ended: exact when none begins and none ends meanwhile.
    pub(crate) fn tasks_alive(&self) -> usize {
        Tally::sum(self.cores.iter().map(|core| &*core.tasks_alive))
    }

    /// Whether no task is left and no event, neither waiting nor running.
    pub(crate) fn all_done(&self) -> bool {
        let tallies = self.cores.iter().flat_map(|core| [&*core.queued, &*core.tasks_alive]);
        Tally::all_done(tallies, self.cores.iter().map(|core| &core.counters.runs))
    }
}
