//! A color moves to the core that posts to it. Two cases: the color's own core sleeps, or the color
//! is a task's and its turn comes much sooner on the poster's core.
//!
//! The poster decides about the place of a new token before the token is queued, so the move costs
//! no lock. The conditions are `vermeil_sched`'s. Leaves out stealing. Tested in `tests/steal.rs`.

use crate::{color_meta::RuntimeToken, core::current, shared::RuntimeShared};
use vermeil_sched::{CoreIndex, Stealing};

/// Why a color may move to its poster.
#[derive(Clone, Copy)]
enum MoveReason {
    /// The color's core sleeps.
    Asleep,
    /// The color belongs to a task that may have to wait for long.
    Turn,
}

impl RuntimeShared {
    /// Moves a color to core `here`, which has just posted to the color, if the move pays. A color
    /// that a plan has placed stays.
    pub(crate) fn move_to_poster(&self, token: &RuntimeToken, here: CoreIndex) {
        self.bring(token, here, None);
    }

    /// As [`move_to_poster`](Self::move_to_poster), for a task's own color. Only tasks also
    /// compare the waits on both cores, because most posts from other cores are not worth reading
    /// the other core's line.
    pub(crate) fn move_task_to_poster(&self, token: &RuntimeToken, here: CoreIndex) {
        self.bring(token, here, Some(MoveReason::Turn));
    }

    #[inline]
    fn bring(&self, token: &RuntimeToken, here: CoreIndex, otherwise: Option<MoveReason>) {
        if self.settings.stealing != Stealing::Learned {
            return;
        }
        let home = CoreIndex(token.color().core());
        if here == home {
            return;
        }
        let reason = if self.core(home.0).parking.is_asleep() { Some(MoveReason::Asleep) } else { otherwise };
        if let Some(reason) = reason {
            self.consider_moving(token, (home, reason), here);
        }
    }

    fn consider_moving(
        &self,
        token: &RuntimeToken,
        (home, reason): (CoreIndex, MoveReason),
        here: CoreIndex,
    ) {
        let color = token.color();
        let unit = self.control.as_ref().and_then(|control| control.unit(color.meta.handler()));
        // A connection is not woken for a core, and moves only away from much work.
        if unit.is_some() || color.meta.stays() || !self.may_go(color, here) {
            return;
        }
        let now_ns = self.clock.now_ns();
        let distance = self.settings.layout.distance(home, here);
        let load = self.core_load(here);
        let candidate = self.candidate(color, &load, here, now_ns);
        let comes = match reason {
            MoveReason::Asleep => self.settings.stealing.moves_to_poster(&candidate, self.moves.wake_ns()),
            MoveReason::Turn => {
                let sooner_ns = self.core_load(home).backlog_ns().saturating_sub(load.backlog_ns());
                // No thief asks again with better numbers, so this core's own estimate of a move
                // counts.
                let steal_ns = current(|core| core.measures.learner.borrow().steal_ns(distance))
                    .unwrap_or_else(|| self.moves.steal_ns(distance));
                self.settings.stealing.moves_to_its_turn(&candidate, sooner_ns, steal_ns)
            }
        };
        if comes {
            if !matches!(reason, MoveReason::Asleep) {
                self.note_moved(color, here, now_ns);
            }
            self.count_move(color.meta.handler());
            token.move_to(here.0);
        }
    }
}
