//! Drops the events of colors that become ready after the end of their runtime.
//!
//! The destructor of a future may wake or spawn another task, whose future is then dropped as well.
//! A chain of such tasks may be as long as the tasks are many, so the colors wait in a list and not
//! on the stack. Tested in `tests/stopping.rs`.

use crate::color_meta::RuntimeToken;
use std::cell::RefCell;

thread_local! {
    /// The colors that wait while this thread drops the events of a color; `None` at other times.
    static LATE: RefCell<Option<Vec<RuntimeToken>>> = const { RefCell::new(None) };
}

/// Drops the events of `token`, and of each color that their destructors make ready. Within such a
/// destructor, leaves the token to the outer call.
#[cold]
pub(crate) fn discard(token: RuntimeToken) {
    let mut token = Some(token);
    let is_within = LATE.try_with(|late| match late.borrow_mut().as_mut() {
        Some(late) => {
            late.extend(token.take());
            true
        }
        None => false,
    });
    let mut next = token;
    if is_within == Ok(false) {
        LATE.set(Some(Vec::new()));
    }
    while let Some(token) = next {
        // Contains the panics of destructors.
        token.discard();
        next = LATE.try_with(|late| late.borrow_mut().as_mut()?.pop()).ok().flatten();
    }
    if is_within == Ok(false) {
        LATE.set(None);
    }
}
