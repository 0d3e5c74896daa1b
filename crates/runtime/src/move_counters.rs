//! Counts of rare operations, by handler and by core: steals, moves and wakes.
//!
//! The acting thread counts. A core counts in its own rows, which no other thread writes. Threads
//! that are not cores share a row by handler. A color counts for the handler of its last posted
//! event. Leaves out the decisions to steal, move and wake. Tested in `tests/move_counters.rs`.

use crate::{
    core::{Core, current_of},
    counters::{CoreCounters, add},
    handlers::HandlerCounters,
    shared::RuntimeShared,
};
use std::sync::atomic::{AtomicU64, Ordering};
use vermeil_sched::HandlerIndex;

impl RuntimeShared {
    /// This thread sends a color of `handler` to another core.
    #[cold]
    pub(crate) fn count_move(&self, handler: HandlerIndex) {
        self.count(handler, |core| &core.moves, |counters| &counters.moves);
    }

    /// This thread has queued an event of `handler` on a sleeping core, and wakes the core.
    #[cold]
    pub(crate) fn count_wake(&self, handler: HandlerIndex) {
        self.count(handler, |core| &core.wakes, |counters| &counters.wakes);
    }

    /// This thread wakes a sleeping core to steal or to watch, because of an event of `handler` if
    /// the call judged one.
    #[cold]
    pub(crate) fn count_thief(&self, handler: Option<HandlerIndex>) {
        match handler {
            Some(handler) => {
                self.count(handler, |core| &core.steal.thieves_woken, |counters| &counters.wakes)
            }
            None => drop(current_of(self, |core| add(&core.mine().counters.steal.thieves_woken, 1))),
        }
    }

    fn count(
        &self,
        handler: HandlerIndex,
        of_core: fn(&CoreCounters) -> &AtomicU64,
        of_handler: fn(&HandlerCounters) -> &AtomicU64,
    ) {
        let handler = handler.0 as usize;
        let here = current_of(self, |core| {
            add(of_core(&core.mine().counters), 1);
            add(of_handler(&core.mine().records.handlers[handler]), 1);
        });
        if here.is_none() {
            of_handler(&self.handlers.outside[handler]).fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Core {
    /// This core has stolen `colors` colors whose next event is of `handler`, one after another.
    pub(crate) fn count_steals(&self, handler: HandlerIndex, colors: u64) {
        let mine = self.mine();
        add(&mine.counters.steal.steals, colors);
        add(&mine.records.handlers[handler.0 as usize].steals, colors);
    }
}
