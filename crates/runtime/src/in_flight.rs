//! Counts of a core's posted events and of a runtime's tasks. The first count is bounded; a
//! draining runtime waits for both.
//!
//! An event counts on the core of its color at the time of posting, until the event begins to run
//! or is dropped, on any core. A task counts on the core that spawned it, and its end on the core
//! where it ended. So only the sum over all cores has a meaning. The queue's `in_flight.rs` does
//! the counting. Waiters for room count too: `capacity.rs`. Tested in `tests/handler.rs`, and by
//! everything that drains.

use crate::{core::current_of, shared::RuntimeShared};
use vermeil_queue::InFlight;

impl RuntimeShared {
    /// Counts an event on core `index`, unless `bound` is reached. Returns whether the event was
    /// counted.
    #[inline]
    pub(crate) fn enter(&self, index: u32, bound: usize) -> bool {
        let queued = &self.core(index).queued;
        if current_of(self, |core| core.index.0 == index) == Some(true) {
            let enters = queued.len() < bound;
            if enters {
                queued.enter_local();
            }
            return enters;
        }
        // The event is counted before the comparison, because several threads may do the same at
        // once and must not all get in.
        queued.enter_remote();
        let enters = queued.len() <= bound;
        if !enters && queued.undo_enter() {
            self.admit(index);
        }
        enters
    }

    /// A counted event of core `index` begins, or is dropped.
    #[inline]
    pub(crate) fn leave(&self, index: u32) {
        let queued = &self.core(index).queued;
        if current_of(self, |core| core.index.0 == index) == Some(true) {
            queued.leave_local();
        } else if queued.leave_remote() {
            self.admit(index);
        }
    }

    /// A task was spawned.
    #[inline]
    pub(crate) fn task_begins(&self) {
        if current_of(self, |core| core.mine().tasks_alive.enter_local()).is_none() {
            self.core(0).tasks_alive.enter_remote();
        }
    }

    /// A task has ended.
    #[inline]
    pub(crate) fn task_ends(&self) {
        if current_of(self, |core| core.mine().tasks_alive.leave_local()).is_none() {
            self.core(0).tasks_alive.leave_remote();
        }
    }

    /// Tasks that have not ended. Exact if no task begins or ends during the call.
    pub(crate) fn tasks_alive(&self) -> usize {
        InFlight::sum(self.cores.iter().map(|core| &*core.tasks_alive))
    }

    /// Whether no task and no event is left, waiting or running.
    pub(crate) fn all_done(&self) -> bool {
        let in_flights = self.cores.iter().flat_map(|core| [&*core.queued, &*core.tasks_alive]);
        InFlight::all_done(in_flights, self.cores.iter().map(|core| &core.counters.runs))
    }
}
