//! The expensive step of handshakes, as work that any core may do ([`vermeil_work::any_core`]).
//!
//! A key exchange and a signature take 0.1 to 1.5 ms, and must not hold up requests.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use vermeil::Handle;
use vermeil_tls::{ClientGreeting, HostTlsConfig, TlsFailure, TlsSession};
use vermeil_work::any_core::{AnyCoreWork, WorkEnded};

/// The expected time of a step before the first was measured. With a P-256 key on a cpu of 2021.
const EXPECTED: Duration = Duration::from_micros(200);

/// The name of the steps in the status and in recordings.
const NAME: &str = "TLS handshake";

/// Runs the steps.
pub(super) struct HandshakeWorkers {
    work: AnyCoreWork<HandshakeStep, Result<TlsSession, TlsFailure>>,
    idle: Option<Handle>,
    waiting: AtomicUsize,
}

struct HandshakeStep {
    greeting: ClientGreeting,
    config: HostTlsConfig,
}

/// Why there is no result.
pub enum StepFailure {
    /// Too many steps wait.
    Full,
    /// The server ends.
    Ended,
    /// The client was refused.
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
    /// On the cores of `handle`, and those of `idle` in idle time.
    pub(super) fn new(handle: &Handle, idle: Option<Handle>) -> Self {
        let run = |step: HandshakeStep| step.greeting.answer(&step.config);
        let mut work = AnyCoreWork::new(handle, NAME, EXPECTED, run).in_background();
        if let Some(idle) = &idle {
            work = work.in_idle_time(idle, NAME, EXPECTED, run);
        }
        Self { work, idle, waiting: AtomicUsize::new(0) }
    }

    /// The cores that run steps in idle time.
    pub(super) fn idle(&self) -> Option<&Handle> {
        self.idle.as_ref()
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
        match self.work.run(HandshakeStep { greeting, config }).await {
            Ok(answered) => answered.map_err(StepFailure::Failed),
            Err(WorkEnded) => Err(StepFailure::Ended),
        }
    }
}
