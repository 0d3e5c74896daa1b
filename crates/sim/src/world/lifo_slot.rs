//! The color that an activation has woken on its own core, kept out of the queue to run next:
//! `lifo_slot.rs` of the runtime.
//!
//! `vermeil_sched::LifoSlotRule` is the rule. Leaves out when an activation ends (`step.rs`).

use vermeil_sched::{CoreIndex, LifoSlotRule, WakeDestination};

use super::World;
use super::colors::TokenPlace;
use crate::watch::Watch;

impl<W: Watch> World<W> {
    /// A color has got its first event. The color is queued, or follows the running activation of
    /// the core that has posted.
    pub(super) fn woken(&mut self, color: u32, by: Option<CoreIndex>, at_ns: &mut u64) {
        let poster = by.filter(|&by| self.colors.color(color).core == by && !self.must_leave(color, by));
        // Kept, the color would hold up a running color that cannot leave this core.
        if let Some(core) = poster
            && self.gives_way(core, color, *at_ns)
            && self.offer(color, by, at_ns)
        {
            return self.push_token(color, by, at_ns);
        }
        let woken = poster.map(|core| (core, self.core(core).slot.rule.woken()));
        match woken {
            Some((core, WakeDestination::LifoSlot)) => return self.keep(core, color, at_ns),
            Some((core, WakeDestination::QueueWithLifoSlot)) => self.queue_lifo_slot(core, at_ns),
            Some((_, WakeDestination::Queue)) | None => {}
        }
        self.push_token(color, by, at_ns);
    }

    fn keep(&mut self, core: CoreIndex, color: u32, at_ns: &mut u64) {
        self.colors.color_mut(color).token = TokenPlace::Next;
        self.core(core).slot.kept = Some(color);
        self.shown.keeping.insert(core);
        if !self.idle_coordinator(core).is_watched() && !self.colors.color(color).is_fixed() {
            self.consider_watch(core, at_ns);
        }
    }

    /// Whether a core keeps a color that no core watches, so that the color could be caught behind
    /// a long event.
    pub(super) fn anything_unwatched(&self, thief: CoreIndex) -> bool {
        let unwatched = |keeper| self.is_victim(thief, keeper) && !self.is_watched(keeper, thief);
        self.shown.keeping.iter().any(|keeper| keeper != thief && unwatched(keeper))
    }

    fn let_go(&mut self, core: CoreIndex) -> Option<u32> {
        self.shown.keeping.remove(core);
        self.core(core).slot.kept.take()
    }

    fn queue_lifo_slot(&mut self, core: CoreIndex, at_ns: &mut u64) {
        if let Some(color) = self.let_go(core) {
            self.push_token(color, Some(core), at_ns);
        }
    }

    /// The color that runs after the activation that has ended, if the activation has woken exactly
    /// one.
    pub(super) fn take_lifo_slot(&mut self, core: CoreIndex) -> Option<u32> {
        if self.core(core).slot.rule.end() { self.let_go(core) } else { None }
    }

    /// Queues the kept color. Later colors that the running activation wakes are queued too.
    pub(super) fn close_lifo_slot(&mut self, core: CoreIndex, at_ns: &mut u64) {
        if self.core(core).slot.rule.end() {
            self.queue_lifo_slot(core, at_ns);
        }
    }

    /// Queues each color that a victim keeps and that is caught behind a long event.
    pub(super) fn free_caught(&mut self, thief: CoreIndex, at_ns: &mut u64) {
        let is_caught = |world: &Self, at_ns: u64, keeper: CoreIndex| {
            keeper != thief
                && world.is_victim(thief, keeper)
                && LifoSlotRule::is_caught(&world.core_load_of(keeper, at_ns), at_ns)
        };
        while let Some(keeper) = self.shown.keeping.iter().find(|&keeper| is_caught(self, *at_ns, keeper)) {
            if let Some(color) = self.let_go(keeper) {
                self.queue_token(color, Some(thief), at_ns);
            }
        }
    }
}
