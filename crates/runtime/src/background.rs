//! Colors in the background: colors that wait behind the others of their core.
//!
//! A new client should not delay the clients that are served already. While a task waits in
//! [`background`], its color waits in the part of the ready queue that colors with long events have
//! (`sched`, `LongTurns`), behind those that are there. After a color of that part, the others run
//! for as long as that color took. So the background gets half of the time while others wait, and
//! cannot starve. Under every policy but `libasync`, which has the order of posting. With classes
//! of handlers ([`Builder::classes`](crate::Builder::classes)) the classes decide. Tested in
//! `tests/background.rs`.

use crate::{Color, Task, color_meta::ColorMeta, core::current, handle::Handle};
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use vermeil_sched::CoreIndex;

/// Keeps the color of this task in the background until `future` is ready or dropped. For a task
/// that is alone on its color and does not change its color meanwhile.
///
/// A future that cannot be moved in memory is pinned by the caller: `background(pin!(future))`.
pub fn background<F: Future + Unpin>(future: F) -> impl Future<Output = F::Output> {
    Background { future, waits: false }
}

/// The future of [`background`].
struct Background<F> {
    future: F,
    /// Whether the last poll was not ready.
    waits: bool,
}

impl<F: Future + Unpin> Future for Background<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let polled = Pin::new(&mut self.future).poll(context);
        self.waits = polled.is_pending();
        set_background(self.waits);
        polled
    }
}

impl<F> Drop for Background<F> {
    fn drop(&mut self) {
        if self.waits {
            set_background(false);
        }
    }
}

/// The running task enters or leaves the background at the end of its event.
fn set_background(background: bool) {
    current(|core| core.run.marks.background.set(Some(background)));
}

impl Handle {
    /// As [`spawn_staying`](Self::spawn_staying). The color begins in the background, and leaves
    /// the background when a wait in [`background`] ends.
    ///
    /// # Panics
    /// If `core` does not exist.
    #[track_caller]
    pub fn spawn_staying_in_background<F>(&self, core: CoreIndex, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_staying_with(core, future, ColorMeta::begins_in_background)
    }
}

impl Color {
    /// Keeps the color in the background for all its events. For a
    /// [concurrent](crate::Handle::concurrent_color) color, the colors of its events.
    ///
    /// # Panics
    /// If the color was shared or used before.
    pub fn background(mut self) -> Self {
        let queue = Arc::get_mut(&mut self.queue).expect("before the color is shared or used");
        queue.meta_mut().keep_in_background();
        self
    }
}
