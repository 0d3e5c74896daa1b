//! Tasks that use the state of their core, and whose color may move only while they wait for input.
//!
//! A server keeps state for each core: a cache, a log, counters. A task that uses such state must
//! not change its core amid a piece of work. While the task waits for its next piece, any core may
//! take it. Leaves out the moves themselves (`steal.rs`, `thief.rs`, `move_to_poster.rs`), which
//! ask `ColorMeta::may_move`. Tested in `tests/staying.rs`.

use crate::{
    Task,
    affinity::Affinity,
    color_meta::{ColorMeta, Staying},
    core::current,
    handle::Handle,
    wakes_here,
};
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};
use vermeil_sched::CoreIndex;

impl Handle {
    /// Spawns `future` on a new color that begins on `core`. The color stays on its core except
    /// while the task waits in [`movable`].
    ///
    /// # Panics
    /// If `core` does not exist.
    #[track_caller]
    pub fn spawn_staying<F>(&self, core: CoreIndex, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_staying_with(core, future, |meta| meta)
    }

    /// As [`spawn_staying`](Self::spawn_staying), on a color with the state that `change` returns.
    #[track_caller]
    pub(crate) fn spawn_staying_with<F>(
        &self,
        core: CoreIndex,
        future: F,
        change: impl FnOnce(ColorMeta) -> ColorMeta,
    ) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.check_core(core);
        let handler = self.shared.kind_of::<F>();
        let meta = change(ColorMeta::of_task(Affinity::default(), handler).staying());
        self.spawn_with_color(core, meta, handler, future)
    }
}

/// Lets the color of this task move to another core until `future` is ready or dropped. From then
/// on the color stays on the core where the task then runs. For tasks of [`Handle::spawn_staying`];
/// the colors of other tasks move as their placement says.
///
/// A future that cannot be moved in memory is pinned by the caller: `movable(pin!(future))`.
pub fn movable<F: Future + Unpin>(future: F) -> impl Future<Output = F::Output> {
    Movable { future, waits: false }
}

/// Wakes tasks in `wake`. The tasks continue on the running core, whatever the policy says, if
/// their colors may move. Off a core, the tasks are woken as usual.
///
/// A core takes over the waiting tasks of a stalled core in this way: a task of
/// [`Handle::spawn_staying`] that waits in [`movable`] then continues here.
pub fn wake_here<R>(wake: impl FnOnce() -> R) -> R {
    wakes_here::within(wake)
}

/// The future of [`movable`].
struct Movable<F> {
    future: F,
    /// Whether the last poll was not ready.
    waits: bool,
}

impl<F: Future + Unpin> Future for Movable<F> {
    type Output = F::Output;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let polled = Pin::new(&mut self.future).poll(context);
        self.waits = polled.is_pending();
        set_staying(if self.waits { Staying::MayMove } else { Staying::Stays });
        polled
    }
}

impl<F> Drop for Movable<F> {
    fn drop(&mut self) {
        if self.waits {
            set_staying(Staying::Stays);
        }
    }
}

/// From the end of its event on, the color of the running task may move or stays.
#[inline]
fn set_staying(staying: Staying) {
    current(|core| core.run.marks.staying.set(Some(staying)));
}
