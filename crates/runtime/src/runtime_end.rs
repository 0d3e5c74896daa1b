//! The end of a runtime, in two steps: the cores stop, then the remaining events are dropped.
//!
//! Leaves out the thread that ends the runtime (`runtime.rs`). Tested in `tests/stopping.rs`.

use crate::until_end::EndWaiters;
use std::sync::atomic::{AtomicBool, Ordering};

/// How far the end of a runtime has come.
#[derive(Default)]
pub(crate) struct RuntimeEnd {
    stopping: AtomicBool,
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
