//! A color that an activation has woken on its own core is kept out of the queue and runs next. If
//! the activation takes too long, the color is queued after all.
//!
//! The rule is `vermeil_sched::LifoSlotRule`'s, the storage `vermeil_queue::Kept`. Tested in
//! `tests/lifo_slot.rs`, and for delayed colors in `tests/steal.rs`.

use crate::{
    color_meta::RuntimeToken,
    core::{Core, current},
    shared::{CoreShared, RuntimeShared},
    thief::HandOver,
};
use vermeil_sched::{CoreIndex, LifoSlotRule, WakeDestination};

impl RuntimeShared {
    /// Core `poster`, or another thread if `None`, has made this token: queues the token, or keeps
    /// it to run next on that core.
    pub(crate) fn woken(&self, token: RuntimeToken, poster: Option<CoreIndex>) {
        let color = token.color();
        let is_here = poster.is_some_and(|here| color.core() == here.0) && !color.is_migrating();
        // Kept, the color would hold up a running color that cannot leave this core.
        let stays = is_here && current(|core| core.gives_way(color.worth_ns())).unwrap_or(false);
        let mut asleep = None;
        if stays {
            match self.hand_over(&token, true) {
                HandOver::Goes => return self.schedule(token, 1),
                HandOver::Stays(seen) => asleep = seen,
            }
        }
        let mut token = Some(token);
        if is_here {
            current(|core| core.keep_alone(&mut token));
        }
        match token {
            Some(token) if stays => self.schedule_beside(token, 1, asleep),
            Some(token) => self.hand_over_or_schedule(token),
            None => {}
        }
    }
}

impl Core {
    /// Keeps a token that this core has made, if it is the only token of this activation.
    fn keep_alone(&self, token: &mut Option<RuntimeToken>) {
        let mut lifo_slot_rule = self.run.lifo_slot_rule.get();
        let woken = lifo_slot_rule.woken();
        self.run.lifo_slot_rule.set(lifo_slot_rule);
        let is_background = token.as_ref().is_some_and(|token| token.color().meta.is_background());
        match woken {
            // A color in the background waits behind the queued colors.
            WakeDestination::LifoSlot if is_background => self.run.lifo_slot_rule.set(LifoSlotRule::Closed),
            WakeDestination::LifoSlot => token.take().into_iter().for_each(|token| self.keep(token)),
            WakeDestination::Queue => {}
            WakeDestination::QueueWithLifoSlot => self.queue_lifo_slot(),
        }
    }

    fn keep(&self, token: RuntimeToken) {
        let moves = self.shared.notes_that_moves(token.color());
        self.mine().load_cell.lifo_slot.put(token);
        if moves {
            // This activation may last longer than expected.
            self.shared.consider_watch(self.index);
        }
    }

    /// Queues colors that other cores keep behind an activation that takes too long.
    pub(crate) fn free_caught(&self) {
        for (core, victim) in self.keepers() {
            if LifoSlotRule::is_caught(&self.shared.core_load(victim), self.shared.clock.now_ns())
                && let Some(caught) = core.load_cell.lifo_slot.take()
            {
                self.shared.schedule(caught, 1);
            }
        }
    }

    /// Whether a core keeps a color that no watcher would rescue.
    pub(crate) fn anything_unwatched(&self) -> bool {
        self.keepers().any(|(_, keeper)| !self.shared.is_watched(keeper, self.index))
    }

    /// The other cores that keep a color.
    fn keepers(&self) -> impl Iterator<Item = (&CoreShared, CoreIndex)> {
        let others = self.shared.settings.layout.neighbours(self.index).iter();
        let others = others.map(|&other| (self.shared.core(other.0), other));
        others.filter(|(core, _)| !core.load_cell.lifo_slot.is_empty())
    }

    fn queue_lifo_slot(&self) {
        if let Some(token) = self.mine().load_cell.lifo_slot.take() {
            self.shared.hand_over_or_schedule(token);
        }
    }

    /// The only color that the last activation has woken, if there is exactly one.
    pub(crate) fn take_lifo_slot(&self) -> Option<RuntimeToken> {
        if self.run.lifo_slot_rule.take().end() { self.mine().load_cell.lifo_slot.take() } else { None }
    }

    /// Queues the colors that the running activation has woken and will wake.
    pub(crate) fn close_lifo_slot(&self) {
        if self.run.lifo_slot_rule.take().end() {
            self.queue_lifo_slot();
        }
    }
}
