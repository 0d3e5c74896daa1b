//! Tasks that continue on another color: long work leaves the color and returns later.
//!
//! The task's state moves with the task (`Colored::move_to`), so no part of a task is ever on two
//! colors. A wake-up that was posted on the old color finds the task gone and follows. Tested in
//! `tests/model.rs` and `tests/concurrent.rs`.

use crate::{
    Color,
    core::{HopAsk, current},
};
use std::{
    future::{Future, poll_fn},
    panic::Location,
    ptr,
    task::Poll,
};
use vermeil_queue::current_color;

/// The part of a hop's future that asks for the hop to a color. Its address names the future.
struct HopAsker<'a>(&'a Color);

impl HopAsker<'_> {
    fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }
}

impl Drop for HopAsker<'_> {
    fn drop(&mut self) {
        current(|core| core.run.hop.withdraw(self.address()));
    }
}

/// Continues the running task on `color`, at the tail of the color's queue: events posted there
/// before run first. The task has no access to state of the old color until the task hops back. On
/// a [concurrent](crate::Handle::concurrent_color) color the task runs in parallel to all other
/// events, on a new color each time. A future that is dropped before the hop does not move the
/// task. If several futures of a task ask for hops in one poll, the task takes the hops one after
/// the other, the last hop first.
///
/// # Panics
/// Off a core, or if the color belongs to another runtime.
#[track_caller]
pub fn hop(color: &Color) -> impl Future<Output = ()> {
    let at = Location::caller();
    async move {
        let own = color.for_one_if_concurrent();
        let color = own.as_ref().unwrap_or(color);
        let asking = HopAsker(color);
        poll_fn(|context| {
            if current_color() == Some(color.id()) {
                return Poll::Ready(());
            }
            let hops = current(|core| {
                let is_own = ptr::eq(&*core.shared, &*color.shared);
                assert!(is_own, "the color belongs to another runtime than the task that hops at {at}");
                core.run.hop.ask(HopAsk {
                    color: asking.0.clone(),
                    waker: context.waker().clone(),
                    by: asking.address(),
                });
            });
            assert!(hops.is_some(), "a task hops on a core of a runtime (`Handle::spawn`): not at {at}");
            Poll::Pending
        })
        .await;
    }
}
