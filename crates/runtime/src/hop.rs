//! Tasks that go on on another color: long work leaves the color, and comes back in its turn.
//!
//! The task's state moves with it (`Colored::move_to`), so nothing of the task is ever on two colors. A wake-up that was posted
//! on the color it left finds it gone and follows. Tested in `tests/model.rs` and `tests/free.rs`.

use crate::{Color, core::current};
use std::{
    future::{Future, poll_fn},
    panic::Location,
    task::Poll,
};
use vermeil_queue::current_color;

/// Goes on with the running task on `color`, at the tail of its queue: what was posted there before runs first. State of the
/// color that it leaves is closed to it until it hops back. On a [free](crate::Handle::free_color) color it goes on beside everything
/// else, on a new color each time.
///
/// # Panics
/// Off a core; and when the color belongs to another runtime.
#[track_caller]
pub fn hop(color: &Color) -> impl Future<Output = ()> {
    let at = Location::caller();
    async move {
        let own = color.for_one_if_free();
        let color = own.as_ref().unwrap_or(color);
        poll_fn(|_| {
            if current_color() == Some(color.id()) {
                return Poll::Ready(());
            }
            let hops = current(|core| {
                let is_own = std::ptr::eq(&*core.shared, &*color.shared);
                assert!(is_own, "the color belongs to another runtime than the task that hops at {at}");
                *core.hop.borrow_mut() = Some(color.clone());
            });
            assert!(hops.is_some(), "a task hops on a core of a runtime (`Handle::spawn`): not at {at}");
            Poll::Pending
        })
        .await;
    }
}
