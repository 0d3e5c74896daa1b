//! Work that must not hold up requests, as events of a handler that any core may run.
//!
//! Each step is an event on a color of its own, so idle cores take it, and the runtime learns the
//! cost of the steps. At most as many steps are queued at the cores as there are cores. Further
//! steps wait in order of arrival outside the cores' queues, so a request never waits behind a row
//! of steps. Handshakes and compression (`compress/`) are such work.

use futures_channel::oneshot;
use std::time::Duration;
use vermeil::{Color, Handle, Handler, Spec};

/// Runs steps.
pub struct AnyCoreWork<S: 'static, R: 'static> {
    handler: Handler<AnyCoreStep<S, R>>,
    color: Color,
}

struct AnyCoreStep<S, R> {
    step: S,
    /// The task that waits; may have gone.
    to: oneshot::Sender<R>,
}

/// The server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkEnded;

impl<S: Send + 'static, R: Send + 'static> AnyCoreWork<S, R> {
    /// Work called `name`, whose steps take `expected` as long as none was measured.
    pub fn new(
        handle: &Handle,
        name: &'static str,
        expected: Duration,
        run: impl Fn(S) -> R + Send + Sync + 'static,
    ) -> Self {
        let spec = Spec::new(name).cost(expected);
        let handler = handle.handler(spec, move |AnyCoreStep { step, to }: AnyCoreStep<S, R>| {
            if !to.is_canceled() {
                // The task may end meanwhile.
                let _ = to.send(run(step));
            }
        });
        let color = handle.concurrent_color().bounded(handle.cores().len());
        Self { handler, color }
    }

    /// Steps that wait behind the other colors of their core.
    pub fn in_background(mut self) -> Self {
        self.color = self.color.background();
        self
    }

    /// Runs one step on any core.
    pub async fn run(&self, step: S) -> Result<R, WorkEnded> {
        let (to, result) = oneshot::channel();
        if self.handler.post_when_room(&self.color, AnyCoreStep { step, to }).await.is_err() {
            return Err(WorkEnded);
        }
        // The event is dropped if the runtime ends.
        result.await.map_err(|oneshot::Canceled| WorkEnded)
    }
}
