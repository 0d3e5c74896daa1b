//! Whether a color that would wait on its core goes to a busy core with less waiting work.
//!
//! The conditions are `vermeil_sched::Stealing`'s: `moves_to_shorter_queue`, and `begins_elsewhere`
//! for a color that has never run. The color's own core asks, when queueing the color, and reads
//! the load of another core, without a lock. Colors with little work cost only a look at the core's
//! own load. Leaves out sleeping cores (`thief.rs`).
//! Tested in `tests/steal.rs`.

use crate::{color_meta::RuntimeToken, core::current_of, shared::RuntimeShared, thief::HandOver};
use vermeil_sched::{CoreIndex, Distance, StealCandidate};

/// The least cost of a steal for the question whether a new color begins on another core, so that
/// a color must take more than four microseconds (`begins_elsewhere` counts an eighth). A steal
/// gets cheap by being frequent, but a post still moves the lines of the queue and of the task.
/// With a bound of one microsecond, bench program `skynet` took twice as long on two cores, and
/// without a bound `unbalanced` took 9 % longer as well.
const BIRTH_STEAL_NS: u64 = 32_000;

impl RuntimeShared {
    /// Gives `token`, whose color is about to wait on this core, to a core with less waiting work,
    /// if that pays.
    pub(crate) fn move_to_shorter_queue(&self, token: &RuntimeToken) -> HandOver {
        let color = token.color();
        let owner = CoreIndex(color.core());
        let Some(other) = self.next_to_ask(owner, self.settings.layout.neighbours(owner)) else {
            return HandOver::Stays(None);
        };
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

    /// Sends `token`, whose color has never run and is about to wait on this core, to a core with
    /// less waiting work, if that pays. `gives_way`: the poster's own color must stay on its core,
    /// and the new color would hold it up. Returns whether the color has a new core.
    pub(crate) fn begin_elsewhere(&self, token: &RuntimeToken, gives_way: bool) -> bool {
        let color = token.color();
        let owner = CoreIndex(color.core());
        let stealing = self.settings.stealing;
        let least_ns = self.moves.steal_ns(Distance::Smt).max(BIRTH_STEAL_NS);
        // Before the loads and the clock, because most colors are short.
        if !stealing.may_begin_elsewhere(color.worth_ns(), least_ns)
            || !self.is_free(color)
            || color.meta.stays()
        {
            return false;
        }
        let load = self.core_load(owner);
        if load.waiting == 0 && !gives_way {
            return false;
        }
        let Some(other) = self.next_to_ask(owner, self.settings.layout.node_neighbours(owner)) else {
            return false;
        };
        if self.core(other.0).parking.is_asleep() || !self.may_go(color, other) {
            return false;
        }
        let now_ns = self.clock.now_ns();
        let distance = self.settings.layout.distance(owner, other);
        let steal_ns = self.moves.steal_ns(distance).max(BIRTH_STEAL_NS);
        let candidate = StealCandidate {
            wait_ns: load.last_wait_ns(now_ns),
            ..self.candidate(color, &load, other, now_ns)
        };
        let goes =
            stealing.begins_elsewhere(&candidate, &self.core_load(other), gives_way, (now_ns, steal_ns));
        if goes {
            // No time of a move, because the color is nowhere yet, so the next move need not wait.
            self.notes_that_moves(color);
            self.count_move(color.meta.handler());
            token.move_to(other.0);
        }
        goes
    }

    /// The core of `neighbours` that `owner` asks next for its load; `None` if this thread is not
    /// `owner`.
    fn next_to_ask(&self, owner: CoreIndex, neighbours: &[CoreIndex]) -> Option<CoreIndex> {
        current_of(self, |core| {
            let mut order = core.run.ask_order.get();
            let other = order.next(neighbours);
            core.run.ask_order.set(order);
            other.filter(|_| core.index == owner)
        })?
    }
}
