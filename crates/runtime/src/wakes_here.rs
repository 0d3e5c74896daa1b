//! Whether the tasks that this thread wakes continue on this thread's core.
//!
//! A module of its own, because both the state of a runtime (`shared.rs`) and the tasks
//! (`staying.rs`) use it.

use std::cell::Cell;

thread_local! {
    static WAKES_HERE: Cell<bool> = const { Cell::new(false) };
}

/// Whether woken tasks continue here.
#[inline]
pub(crate) fn wakes_here() -> bool {
    WAKES_HERE.get()
}

/// Calls `wake`. Tasks that it wakes continue here.
pub(crate) fn within<R>(wake: impl FnOnce() -> R) -> R {
    /// Ends the state also if `wake` panics.
    struct WakesHere;

    impl Drop for WakesHere {
        fn drop(&mut self) {
            WAKES_HERE.set(false);
        }
    }

    WAKES_HERE.set(true);
    let _ends = WakesHere;
    wake()
}
