//! A color moves to the core that posts to it. Three cases: the color's own core sleeps, no other
//! core posts to the color, or the color is a task's and its turn comes much sooner on the poster's
//! core.
//!
//! The poster decides about the place of a new token before the token is queued, so the move costs
//! no lock. The conditions are `vermeil_sched`'s. Leaves out stealing. Tested in `tests/steal.rs`.

use crate::{color::Token, core::current, shared::Shared};
use std::sync::atomic::Ordering;
use vermeil_sched::{CoreIndex, REMOTE_WAKE_STREAK, Stealing};

/// Why a color may move to its poster.
#[derive(Clone, Copy)]
enum Reason {
    /// The color's core sleeps.
    Asleep,
    /// No other core has posted to the color for some time.
    Calls,
    /// The color belongs to a task that may have to wait for long.
    Turn,
}

impl Shared {
    /// Moves a color to core `here`, which has just posted to the color, if the move pays. A color
    /// that a plan has placed stays.
    pub(crate) fn bring_to_poster(&self, token: &Token, here: CoreIndex) {
        self.bring(token, here, None);
    }

    /// As [`bring_to_poster`](Self::bring_to_poster), for a task's own color. Only tasks also
    /// compare the waits on both cores, because most posts from other cores are not worth reading
    /// the other core's line.
    pub(crate) fn bring_task_to_poster(&self, token: &Token, here: CoreIndex) {
        self.bring(token, here, Some(Reason::Turn));
    }

    #[inline]
    fn bring(&self, token: &Token, here: CoreIndex, otherwise: Option<Reason>) {
        if self.stealing != Stealing::Learned {
            return;
        }
        let color = token.color();
        let home = CoreIndex(color.core());
        let calls = color.about.called(here, home);
        if here == home {
            return;
        }
        let reason = if self.core(home.0).parking.is_asleep() {
            Some(Reason::Asleep)
        } else if calls >= REMOTE_WAKE_STREAK {
            Some(Reason::Calls)
        } else {
            otherwise
        };
        if let Some(reason) = reason {
            self.consider_bringing(token, (home, reason), here);
        }
    }

    fn consider_bringing(&self, token: &Token, (home, reason): (CoreIndex, Reason), here: CoreIndex) {
        let color = token.color();
        let unit = self.control.as_ref().and_then(|control| control.unit(color.about.handler()));
        if unit.is_some() || !self.may_go(color, here) {
            return;
        }
        let now_ns = self.clock.now_ns();
        let distance = self.layout.distance(home, here);
        let hint = self.hint(here);
        let candidate = self.candidate(color, &hint, distance, now_ns);
        let comes = match reason {
            Reason::Asleep => self.stealing.moves_to_poster(&candidate, self.moves.wake_ns()),
            Reason::Calls => {
                let wait_at_home_ns = self.hint(home).wait_ns(now_ns);
                self.stealing.moves_to_waker(&candidate, wait_at_home_ns, self.moves.steal_ns(distance))
            }
            Reason::Turn => {
                let sooner_ns = self.hint(home).backlog_ns().saturating_sub(hint.backlog_ns());
                // No thief asks again with better numbers, so this core's own estimate of a move
                // counts.
                let steal_ns = current(|core| core.learner.borrow().steal_ns(distance))
                    .unwrap_or_else(|| self.moves.steal_ns(distance));
                self.stealing.moves_to_its_turn(&candidate, sooner_ns, steal_ns)
            }
        };
        if comes {
            if !matches!(reason, Reason::Asleep) {
                color.about.moved_ns.store(now_ns, Ordering::Relaxed);
            }
            self.count_move(color.about.handler());
            token.move_to(here.0);
        }
    }
}
