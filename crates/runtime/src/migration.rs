//! The runtime's part in the hand-over of tokens: the entries of a ready queue, and the colors that
//! stay.
//!
//! `vermeil_queue::Cores` has the steps and their locks; `vermeil_sched::Ready` has the order of a
//! queue. Leaves out waking (`shared.rs`) and stealing (`steal.rs`). Tested in `tests/control.rs`
//! and `tests/steal.rs`.

use crate::{
    color::Color,
    color_meta::{ColorMeta, RuntimeHead, RuntimeToken, steal_class},
    shared::RuntimeShared,
};
use std::sync::atomic::Ordering;
use vermeil_queue::{Cores, ReadyQueue};
use vermeil_sched::{ClassIndex, CoreIndex, Ready, ReadySlot, Stolen};

impl Cores for RuntimeShared {
    type Meta = ColorMeta;
    type Ready = Ready<RuntimeToken>;

    #[inline]
    fn ready(&self, core: u32) -> &ReadyQueue<Ready<RuntimeToken>> {
        &self.core(core).ready
    }

    #[inline]
    fn have_ended(&self) -> bool {
        self.end.has_ended()
    }

    fn migrated(&self, color: &RuntimeHead) {
        self.count_move(color.meta.handler());
    }

    fn put(&self, ready: &mut Ready<RuntimeToken>, token: RuntimeToken, entries: usize) {
        let color = token.color();
        let (name, class) = (color.id().0.get(), self.class(color));
        // A color that stays has no kin.
        let steal_class = class.and_then(|_| steal_class(color));
        ready.post(name, entries);
        let (of, now_ns) = match self.settings.divides {
            true => (self.handlers.class(color.meta.handler()), self.clock.now_ns()),
            false => (ClassIndex::by_length(color.meta.waits_behind()), 0),
        };
        let noted = ready.next_slot();
        color.meta.slot.store(noted.0, Ordering::Relaxed);
        let slot = ready.push_in(name, token, class, of, now_ns);
        debug_assert_eq!(slot, noted, "nothing was queued meanwhile");
        if let Some(steal_class) = steal_class {
            ready.set_steal_class(slot, steal_class);
        }
    }

    fn remove(&self, ready: &mut Ready<RuntimeToken>, color: &RuntimeHead) -> Option<(RuntimeToken, usize)> {
        // Read under the lock that protects the word. A stale slot names a color that is not there.
        let slot = ReadySlot(color.meta.slot.load(Ordering::Relaxed));
        let Stolen { token, entries, .. } = ready.remove(slot, color.id().0.get())?;
        Some((token, entries))
    }

    fn put_entry(&self, ready: &mut Ready<RuntimeToken>, color: &RuntimeHead) {
        ready.post(color.id().0.get(), 1);
    }
}

impl RuntimeShared {
    /// Sends `color` to core `to`: at once if the color waits in a queue, at the end of its
    /// activation if it runs, and with its next event if it is empty. Only the holder of the token
    /// moves the color, so the color is never on two cores. Not for Libasync-SMP's order, which
    /// places nothing: the color's entries would stay behind.
    pub(crate) fn relocate(&self, color: &Color, to: CoreIndex) {
        if let Some((token, entries)) = self.request_migration(&color.queue, to.0 as u16) {
            self.schedule(token, entries);
        }
    }

    /// For Libasync-SMP's order: adds an entry for an event of a color whose token exists already.
    pub(crate) fn post_entry(&self, color: &RuntimeHead) {
        let core = self.queue_entry(color);
        self.wake_core(core, color.meta.handler());
    }
}
