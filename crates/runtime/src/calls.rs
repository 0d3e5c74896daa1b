//! A color comes to the core that calls it: when its own sleeps, when nobody else calls it, or, if it is a task's, when its turn comes
//! much sooner there.
//!
//! Whoever has made a token decides where it goes before it is queued: a move costs no lock here. The conditions are
//! `vermeil_sched`'s. Leaves out stealing. Tested in `tests/steal.rs`.

use crate::{color::Token, core::current, shared::Shared};
use std::sync::atomic::Ordering;
use vermeil_sched::{CALLS_TO_COME, CoreIndex, Stealing};

/// Why a color may come to who has called it.
#[derive(Clone, Copy)]
enum Reason {
    /// Its core sleeps.
    Asleep,
    /// Nobody else has called it for some time.
    Calls,
    /// It is a task's, and may have to wait for long.
    Turn,
}

impl Shared {
    /// Moves a color to core `here`, which has just posted to it, if that pays. Not one that a plan has placed.
    pub(crate) fn bring_to_poster(&self, token: &Token, here: CoreIndex) {
        self.bring(token, here, None);
    }

    /// As [`bring_to_poster`](Self::bring_to_poster), of a task's own color. For how long it would wait at home is asked of tasks alone: most
    /// of what is posted from afar is not worth the look at that core's line.
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
        } else if calls >= CALLS_TO_COME {
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
            Reason::Asleep => self.stealing.comes_to_poster(&candidate, self.moves.wake_ns()),
            Reason::Calls => {
                let wait_at_home_ns = self.hint(home).wait_ns(now_ns);
                self.stealing.comes_to_caller(&candidate, wait_at_home_ns, self.moves.steal_ns(distance))
            }
            Reason::Turn => {
                let sooner_ns = self.hint(home).backlog_ns().saturating_sub(hint.backlog_ns());
                // Nobody asks again, as a thief would: what this core has learned of moves counts.
                let steal_ns = current(|core| core.learner.borrow().steal_ns(distance))
                    .unwrap_or_else(|| self.moves.steal_ns(distance));
                self.stealing.comes_to_its_turn(&candidate, sooner_ns, steal_ns)
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
