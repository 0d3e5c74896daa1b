//! A color comes to the core that calls it: when its own sleeps, or when nobody else calls it.
//!
//! Whoever has made a token decides where it goes before it is queued: a move costs no lock here. The conditions are
//! `vermeil_sched`'s. Leaves out stealing. Tested in `tests/steal.rs`.

use crate::{color::Token, shared::Shared, thief::move_costs};
use std::sync::atomic::Ordering;
use vermeil_sched::{CALLS_TO_COME, CoreIndex, Stealing};

impl Shared {
    /// Moves a color to core `here`, which has just posted to it, if that pays. Not one that a plan has placed.
    pub(crate) fn bring_to_poster(&self, token: &Token, here: CoreIndex) {
        if self.stealing != Stealing::Learned {
            return;
        }
        let color = token.color();
        let home = CoreIndex(color.core());
        let calls = color.about.called(here, home);
        if here == home {
            return;
        }
        let asleep = self.core(home.0).parking.is_asleep();
        if asleep || calls >= CALLS_TO_COME {
            self.consider_bringing(token, (home, asleep), here);
        }
    }

    fn consider_bringing(&self, token: &Token, (home, asleep): (CoreIndex, bool), here: CoreIndex) {
        let color = token.color();
        let unit = self.control.as_ref().and_then(|control| control.unit(color.about.handler()));
        if unit.is_some() || !self.may_go(color, here) {
            return;
        }
        let now_ns = self.clock.now_ns();
        let distance = self.layout.distance(home, here);
        let candidate = self.candidate(color, &self.hint(here), distance, now_ns);
        let (steal_ns, wake_ns) = move_costs(distance);
        if asleep {
            if self.stealing.comes_to_poster(&candidate, wake_ns) {
                token.move_to(here.0);
            }
        } else if self.stealing.comes_to_caller(&candidate, self.hint(home).wait_ns(now_ns), steal_ns) {
            color.about.moved_ns.store(now_ns, Ordering::Relaxed);
            token.move_to(here.0);
        }
    }
}
