//! Counts of what is rare beside events, by handler and by core: steals, moves and wakes.
//!
//! Whoever does it counts it: a core in its own rows, which nobody else writes; the threads that are no cores in one row that they
//! share, by handler alone. A color counts for the handler that its last event was posted to. Leaves out when any of it is
//! done. Tested in `tests/rare.rs`.

use crate::{
    core::{Core, current_of},
    handler::HandlerCounters,
    shared::{CoreCounters, Shared, add},
};
use std::sync::atomic::{AtomicU64, Ordering};
use vermeil_sched::HandlerIndex;

impl Shared {
    /// This thread has a color of `handler` go to another core.
    #[cold]
    pub(crate) fn count_move(&self, handler: HandlerIndex) {
        self.count(handler, |core| &core.moves, |counters| &counters.moves);
    }

    /// This thread has queued something of `handler` on a core that sleeps, and wakes it.
    #[cold]
    pub(crate) fn count_wake(&self, handler: HandlerIndex) {
        self.count(handler, |core| &core.wakes, |counters| &counters.wakes);
    }

    /// This thread wakes a core that sleeps to steal or to watch, for something of `handler` if one is judged.
    #[cold]
    pub(crate) fn count_thief(&self, handler: Option<HandlerIndex>) {
        match handler {
            Some(handler) => self.count(handler, |core| &core.thieves_woken, |counters| &counters.wakes),
            None => drop(current_of(self, |core| add(&core.mine().counters.thieves_woken, 1))),
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
            add(of_handler(&core.mine().handlers[handler]), 1);
        });
        if here.is_none() {
            of_handler(&self.outside[handler]).fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Core {
    /// This core has taken so many colors that expect `handler`, one after the other.
    pub(crate) fn count_steals(&self, handler: HandlerIndex, colors: u64) {
        let mine = self.mine();
        add(&mine.counters.steals, colors);
        add(&mine.handlers[handler.0 as usize].steals, colors);
    }
}
