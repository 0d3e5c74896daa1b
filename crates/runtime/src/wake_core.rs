//! Waking a core for a queued event.

use crate::{core::current_of, shared::RuntimeShared};
use vermeil_sched::HandlerIndex;

impl RuntimeShared {
    /// An event of `handler` was queued on core `index`: wakes the core if it sleeps and is not the
    /// caller. Returns whether the call woke the core.
    pub(crate) fn wake_core(&self, index: u32, handler: HandlerIndex) -> bool {
        let here = current_of(self, |core| core.index.0 == index).unwrap_or(false);
        let rings = !here && self.core(index).parking.must_wake(|| self.clock.now_ns());
        if rings {
            self.count_wake(handler);
            self.core(index).unpark();
        }
        rings
    }
}
