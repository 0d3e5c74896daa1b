//! Foreign code that a core calls between two events: wakers, and the owners of sent bodies.
//!
//! A panic of such code must not unwind through a turn of a driver, because the turn would lose the
//! rest of its completions, and the core its thread. Leaves out events, whose panics the runtime
//! contains. Tested here and in the runtime's `tests/contained.rs`.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static PANICS: Cell<u64> = const { Cell::new(0) };
}

/// Runs foreign code. A panic of the code ends here, and counts for this thread.
#[inline]
pub fn contain(foreign: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(foreign)) {
        note_panic(payload);
    }
}

#[cold]
fn note_panic(payload: Box<dyn Any + Send>) {
    // The destructor of the payload may panic too.
    std::mem::forget(payload);
    PANICS.set(PANICS.get() + 1);
}

/// The number of panics that have ended in [`contain`] on this thread since the last call.
#[inline]
pub fn take_contained_panics() -> u64 {
    PANICS.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contained_panics_are_counted_once() {
        let mut runs = 0;
        contain(|| runs += 1);
        assert_eq!((runs, take_contained_panics()), (1, 0));
        contain(|| panic!("planted"));
        contain(|| panic!("planted"));
        assert_eq!((take_contained_panics(), take_contained_panics()), (2, 0));
    }
}
