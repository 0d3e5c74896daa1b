//! The discards of a thread run one after the other, not within each other.
//!
//! The destructor of a dropped event may wake a task of a runtime that has ended, or drop a color
//! that stood still, so the events of another color must be dropped too. A chain of such colors may
//! be as long as the colors are many, so the colors wait in a list and not on the stack.
//! Leaves out the drop of the events (`token.rs`). Tested in `tests.rs`.

use std::cell::RefCell;

/// A discard that waits for the end of another.
type LateDiscard = Box<dyn FnOnce()>;

#[cfg(not(any(loom, shuttle)))]
thread_local! {
    /// The discards that wait while this thread discards; `None` at other times.
    static LATE: RefCell<Option<Vec<LateDiscard>>> = const { RefCell::new(None) };
}

#[cfg(loom)]
use loom::thread_local;
#[cfg(shuttle)]
use shuttle::thread_local;

#[cfg(any(loom, shuttle))]
thread_local! {
    static LATE: RefCell<Option<Vec<LateDiscard>>> = RefCell::new(None);
}

/// The outermost discard of this thread. Its end runs the discards that waited.
pub(crate) struct OutermostDiscard(());

impl OutermostDiscard {
    /// Begins a discard; `None` within another discard of this thread.
    pub(crate) fn begin() -> Option<Self> {
        let begins = LATE.try_with(|late| {
            let mut late = late.borrow_mut();
            let begins = late.is_none();
            if begins {
                *late = Some(Vec::new());
            }
            begins
        });
        // A thread that ends has no list any more.
        begins.unwrap_or(true).then(|| Self(()))
    }
}

impl Drop for OutermostDiscard {
    fn drop(&mut self) {
        let next = || LATE.try_with(|late| late.borrow_mut().as_mut()?.pop()).ok().flatten();
        while let Some(discard) = next() {
            discard();
        }
        let _ = LATE.try_with(|late| late.take());
    }
}

/// Leaves `discard` to the outermost discard of this thread, which [`OutermostDiscard::begin`] has
/// just found.
pub(crate) fn discard_later(discard: LateDiscard) {
    let _ = LATE.try_with(|late| {
        if let Some(late) = late.borrow_mut().as_mut() {
            late.push(discard);
        }
    });
}
