//! The end of a runtime, in two steps: the cores stop, then the remaining events are dropped.
//!
//! Leaves out the thread that ends the runtime (`runtime.rs`). Tested in `tests/stopping.rs`.

use crate::until_end::EndWaiters;
use std::sync::atomic::{AtomicBool, Ordering};

/// How far the end of a runtime has come.
#[derive(Default)]
pub(crate) struct RuntimeEnd {
    stopping: AtomicBool,
    /// A core was left behind, because its event did not return in time.
    left_core: AtomicBool,
    ended: AtomicBool,
    /// Waits that the end of the runtime ends.
    pub(crate) waiters: EndWaiters,
}

impl RuntimeEnd {
    /// The cores stop: the caller then wakes every core.
    pub(crate) fn stop(&self) {
        // Pairs with `is_stopping`.
        self.stopping.store(true, Ordering::Release);
    }

    /// Whether the cores stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// A core is left behind: the other cores wait for no task any more.
    pub(crate) fn leave_core(&self) {
        self.left_core.store(true, Ordering::Relaxed);
    }

    /// Whether a core was left behind.
    pub(crate) fn has_left_core(&self) -> bool {
        self.left_core.load(Ordering::Relaxed)
    }

    /// All cores have ended; events queued from now on are dropped at once.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Whether all cores have ended.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}
