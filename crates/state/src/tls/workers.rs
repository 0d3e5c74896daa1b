//! The expensive step of handshakes, as work that any core may do ([`vermeil_work::any_core`]).
//!
//! A key exchange and a signature take 0.1 to 1.5 ms, and must not hold up requests.

use std::time::Duration;
use vermeil::Handle;
use vermeil_tls::{ClientGreeting, FirstBytes, HelloReader, HostTlsConfig, TlsFailure, TlsSession};
use vermeil_work::any_core::{AnyCoreWork, WorkEnded};

/// The expected time of a step before the first was measured. With a P-256 key on a cpu of 2021.
const EXPECTED: Duration = Duration::from_micros(200);

/// The name of the steps in the status and in recordings.
const NAME: &str = "TLS handshake";

/// Runs the steps.
pub(super) struct HandshakeWorkers {
    work: AnyCoreWork<HandshakeStep, Result<TlsSession, TlsFailure>>,
    idle: Option<Handle>,
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

impl HandshakeWorkers {
    /// On the cores of `handle`, and those of `idle` in idle time.
    pub(super) fn new(handle: &Handle, idle: Option<Handle>) -> Self {
        let run = |step: HandshakeStep| step.greeting.answer(&step.config);
        let work = AnyCoreWork::new(handle, idle.as_ref(), NAME, EXPECTED, run).in_background();
        Self { work, idle }
    }

    /// The cores that run steps in idle time.
    pub(super) fn idle(&self) -> Option<&Handle> {
        self.idle.as_ref()
    }

    /// Steps that wait or run.
    pub(super) fn waiting(&self) -> usize {
        self.work.steps()
    }

    /// Answers a client, unless `most` clients wait for their answers.
    pub(super) async fn answer(
        &self,
        greeting: ClientGreeting,
        config: HostTlsConfig,
        most: usize,
    ) -> Result<TlsSession, StepFailure> {
        // Clients that arrive on several cores at once may pass the bound by one each.
        if self.work.steps() >= most {
            return Err(StepFailure::Full);
        }
        let received = greeting.received().to_vec();
        let again_config = config.clone();
        let again = move || match HelloReader::default().receive(&received) {
            FirstBytes::Greeting(greeting) => Some(HandshakeStep { greeting, config: again_config }),
            _ => None,
        };
        match self.work.run(HandshakeStep { greeting, config }, again).await {
            Ok(answered) => answered.map_err(StepFailure::Failed),
            Err(WorkEnded) => Err(StepFailure::Ended),
        }
    }
}
