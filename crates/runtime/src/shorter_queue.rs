//! Whether a color that would wait on its core goes to a busy core with less waiting work.
//!
//! The condition is `vermeil_sched::Stealing::moves_to_shorter_queue`'s. The color's own core asks,
//! when queueing the color, and reads the load of another core, without a lock. Colors with
//! little work cost only a look at the core's own load. Leaves out sleeping cores (`thief.rs`).
//! Tested in `tests/steal.rs`.

use crate::{color_meta::RuntimeToken, core::current_of, shared::RuntimeShared, thief::HandOver};
use vermeil_sched::{CoreIndex, StealCandidate};

impl RuntimeShared {
    /// Gives `token`, whose color is about to wait on this core, to a core with less waiting work,
    /// if that pays.
    pub(crate) fn move_to_shorter_queue(&self, token: &RuntimeToken) -> HandOver {
        let color = token.color();
        let owner = CoreIndex(color.core());
        let Some(other) = self.next_to_ask(owner) else { return HandOver::Stays(None) };
        let steal_ns = self.moves.steal_ns(self.settings.layout.distance(owner, other));
        let (stealing, load) = (self.settings.stealing, self.core_load(owner));
        // Before the clock and the line of the other core, because most colors are short.
        if !stealing.may_move_to_shorter_queue(color.worth_ns(), &load, steal_ns)
            || !self.is_free(color)
            // A connection moves only away from much work, and not before it waits.
            || color.meta.stays()
            || !self.may_go(color, other)
        {
            return HandOver::Stays(None);
        }
        let now_ns = self.clock.now_ns();
        let candidate = StealCandidate {
            wait_ns: load.last_wait_ns(now_ns),
            ..self.candidate(color, &load, other, now_ns)
        };
        let loads = (&load, &self.core_load(other));
        if stealing.moves_to_shorter_queue(&candidate, loads, now_ns, steal_ns) {
            self.give(token, other, now_ns)
        } else {
            HandOver::Stays(None)
        }
    }

    /// The core that `owner` asks next for its load; `None` if this thread is not `owner`.
    fn next_to_ask(&self, owner: CoreIndex) -> Option<CoreIndex> {
        current_of(self, |core| {
            let mut order = core.run.ask_order.get();
            let other = order.next(self.settings.layout.neighbours(owner));
            core.run.ask_order.set(order);
            other.filter(|_| core.index == owner)
        })?
    }
}
