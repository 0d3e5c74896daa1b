//! The expensive step of handshakes, as events of a handler that any core may run.
//!
//! A key exchange and a signature take 0.1 to 1.5 ms, and must not hold up requests. Each step is
//! an event on a color of its own, so idle cores take it. At most as many steps are queued at the
//! cores as there are cores. Further steps wait in order of arrival outside the cores' queues, so a
//! request never waits behind a row of handshakes.

use futures_channel::oneshot;
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use vermeil::{Color, Handle, Handler, Spec};
use vermeil_tls::{ClientGreeting, HostTlsConfig, TlsFailure, TlsSession};

/// The expected time of a step before the first was measured. With a P-256 key on a cpu of 2021.
const EXPECTED: Duration = Duration::from_micros(200);

/// Runs the steps.
pub(super) struct HandshakeWorkers {
    handler: Handler<HandshakeStep>,
    color: Color,
    waiting: AtomicUsize,
}

struct HandshakeStep {
    greeting: ClientGreeting,
    config: HostTlsConfig,
    /// The connection that waits; may have gone.
    to: oneshot::Sender<Result<TlsSession, TlsFailure>>,
}

/// Why there is no result.
pub(crate) enum StepFailure {
    /// Too many steps wait.
    Full,
    /// The server ends.
    Ended,
    Failed(TlsFailure),
}

/// Counts a step while it waits.
struct Waiting<'w>(&'w AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl HandshakeWorkers {
    pub(super) fn new(handle: &Handle) -> Self {
        let handler = handle.handler(Spec::new("TLS handshake").cost(EXPECTED), |step: HandshakeStep| {
            if !step.to.is_canceled() {
                // The connection may end meanwhile.
                let _ = step.to.send(step.greeting.answer(&step.config));
            }
        });
        let color = handle.concurrent_color().bounded(handle.cores().len());
        Self { handler, color, waiting: AtomicUsize::new(0) }
    }

    /// Steps that wait or run.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Answers a client. At most `most` clients wait for their answers at once.
    pub(super) async fn answer(
        &self,
        greeting: ClientGreeting,
        config: HostTlsConfig,
        most: usize,
    ) -> Result<TlsSession, StepFailure> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waits = Waiting(&self.waiting);
        if before >= most {
            return Err(StepFailure::Full);
        }
        let (to, answer) = oneshot::channel();
        let step = HandshakeStep { greeting, config, to };
        if self.handler.post_when_room(&self.color, step).await.is_err() {
            return Err(StepFailure::Ended);
        }
        match answer.await {
            Ok(answered) => answered.map_err(StepFailure::Failed),
            // The event was dropped, because the runtime ends.
            Err(oneshot::Canceled) => Err(StepFailure::Ended),
        }
    }
}
