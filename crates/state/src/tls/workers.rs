//! The expensive step of handshakes, as work that any core may do ([`vermeil_work::any_core`]).
//!
//! A key exchange and a signature take 0.1 to 1.5 ms, and must not hold up requests.

use std::time::Duration;
use vermeil::Handle;
use vermeil_tls::{
    ClientGreeting, FirstBytes, HelloReader, HostTlsConfig, TlsFailure, TlsFlight, TlsSession,
};
use vermeil_work::any_core::{AnyCoreWork, WorkEnded};

/// The expected time of a step before the first was measured. With a P-256 key on a cpu of 2021.
const EXPECTED: Duration = Duration::from_micros(200);

/// The name of the steps in the status and in recordings.
const NAME: &str = "TLS handshake";

/// Runs the steps.
pub(super) struct HandshakeWorkers {
    work: AnyCoreWork<HandshakeStep, Result<TlsFlight, TlsFailure>>,
    idle: Option<Handle>,
}

enum HandshakeStep {
    /// The answer to a client's first message.
    Greeting { greeting: ClientGreeting, config: HostTlsConfig },
    /// The answer to received bytes of a handshake in progress.
    GoOn { session: Box<TlsSession>, received: Vec<u8> },
}

impl HandshakeStep {
    fn run(self) -> Result<TlsFlight, TlsFailure> {
        match self {
            Self::Greeting { greeting, config } => greeting.answer(&config),
            Self::GoOn { session, received } => session.go_on(&received),
        }
    }
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
        let work =
            AnyCoreWork::new(handle, idle.as_ref(), NAME, EXPECTED, HandshakeStep::run).in_background();
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
    ) -> Result<TlsFlight, StepFailure> {
        self.refuse_more_than(most)?;
        let received = greeting.received().to_vec();
        let again_config = config.clone();
        let again = move || match HelloReader::default().receive(&received) {
            FirstBytes::Greeting(greeting) => {
                Some(HandshakeStep::Greeting { greeting, config: again_config })
            }
            _ => None,
        };
        ended(self.work.run(HandshakeStep::Greeting { greeting, config }, again).await)
    }

    /// Answers received bytes of a handshake, unless `most` clients wait for their answers.
    pub(super) async fn go_on(
        &self,
        session: TlsSession,
        received: Vec<u8>,
        most: usize,
    ) -> Result<TlsFlight, StepFailure> {
        self.refuse_more_than(most)?;
        let session = Box::new(session);
        ended(self.work.run_once(HandshakeStep::GoOn { session, received }).await)
    }

    /// Clients that arrive on several cores at once may pass the bound by one each.
    fn refuse_more_than(&self, most: usize) -> Result<(), StepFailure> {
        if self.work.steps() >= most { Err(StepFailure::Full) } else { Ok(()) }
    }
}

fn ended(step: Result<Result<TlsFlight, TlsFailure>, WorkEnded>) -> Result<TlsFlight, StepFailure> {
    match step {
        Ok(answered) => answered.map_err(StepFailure::Failed),
        Err(WorkEnded) => Err(StepFailure::Ended),
    }
}
