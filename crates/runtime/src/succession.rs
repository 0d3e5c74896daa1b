//! What an activation has woken on its own core, kept out of the queue to follow it; and put there after all if it is caught.
//!
//! The rule is `vermeil_sched::Succession`'s, the place `vermeil_queue::Kept`. Tested in `tests/succession.rs` and, for what is
//! caught, in `tests/steal.rs`.

use crate::{
    color::Token,
    core::{Core, current},
    shared::{NOBODY, Shared},
};
use std::sync::atomic::Ordering;
use vermeil_sched::{CoreIndex, Hint, Succession, Woken};

impl Shared {
    /// Core `poster`, if it was one, has made this token: it is queued, or follows what runs there.
    pub(crate) fn woken(&self, token: Token, poster: Option<CoreIndex>) {
        let color = token.color();
        let is_here = poster.is_some_and(|here| color.core() == here.0) && !color.about.is_wanted();
        let mut token = Some(token);
        if is_here {
            current(|core| core.keep_alone(&mut token));
        }
        if let Some(token) = token {
            self.schedule(token, 1);
        }
    }

    /// Queues what `victim` keeps if it is caught behind what runs there; whether it was.
    pub(crate) fn free_caught(&self, victim: CoreIndex, hint: &Hint) -> bool {
        let kept = &self.core(victim.0).hints.kept;
        if kept.is_empty() || !Succession::is_caught(hint, self.clock.now_ns()) {
            return false;
        }
        let caught = kept.take();
        caught.map(|token| self.schedule(token, 1)).is_some()
    }
}

impl Core {
    /// Keeps the token that this core has made, if it is the only one of this activation.
    fn keep_alone(&self, token: &mut Option<Token>) {
        let mut succession = self.succession.get();
        let woken = succession.woken();
        self.succession.set(succession);
        match woken {
            Woken::Keep => token.take().into_iter().for_each(|token| self.keep(token)),
            Woken::Queue => {}
            Woken::QueueBoth => self.queue_kept(),
        }
    }

    fn keep(&self, token: Token) {
        let (shared, kept) = (&self.shared, &self.mine().hints.kept);
        let moves = shared.notes_that_moves(token.color());
        // Somebody must watch: this activation may last longer than was expected.
        let unwatched = moves
            && shared.asleep.load(Ordering::Relaxed) > 0
            && shared.sentinel.load(Ordering::Relaxed) == NOBODY;
        let color = unwatched.then(|| token.color().clone());
        kept.keep(token);
        if let Some(color) = color {
            shared.consider_thief(&color, self.index.0);
        }
    }

    fn queue_kept(&self) {
        if let Some(token) = self.mine().hints.kept.take() {
            self.shared.schedule(token, 1);
        }
    }

    /// What the activation that has ended has woken alone.
    pub(crate) fn take_successor(&self) -> Option<Token> {
        if self.succession.take().end() { self.mine().hints.kept.take() } else { None }
    }

    /// What the running activation has woken, and will wake, is queued.
    pub(crate) fn close_succession(&self) {
        if self.succession.take().end() {
            self.queue_kept();
        }
    }
}
