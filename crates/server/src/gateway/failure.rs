//! How relaying can fail, whose fault it is, and which answer that comes to.

use super::program::Trouble;
use crate::{answer::Sent, connection::Lost};
use thiserror::Error;
use vermeil_http::{Rejection, Status, gateway::BadHead};
use vermeil_spawn::{End, SpawnError};

/// Why a request was not answered by its program.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// The client has gone, or was cut.
    #[error("the client has gone")]
    Client(Lost),
    /// The client's content cannot be read.
    #[error("{}", .0.reason())]
    Content(Rejection),
    /// The client's content did not come in time.
    #[error("the content did not come in time")]
    ContentLate,
    /// There is no room for the client's content.
    #[error("there is no room for the content: {0}")]
    Spool(std::io::Error),
    /// All programs are busy, and as many requests wait as may.
    #[error("{0} requests wait for it already (raise the bound of the queue, or the number of programs)")]
    QueueFull(usize),
    /// Its host has no pool.
    #[error("there is no pool for it")]
    NoPool,
    /// No program became free in time.
    #[error("none was free in time (raise their number?)")]
    QueueLate,
    /// No connection.
    #[error("it cannot be reached: {0}")]
    Connect(std::io::Error),
    /// No descriptors for it.
    #[error("it cannot be connected to: {0} (raise the limit of open files?)")]
    Pipes(std::io::Error),
    /// It was not started.
    #[error("{0}")]
    Start(SpawnError),
    /// It ended early, and how.
    #[error("it ended with {} before its answer did", Ending(*.0))]
    Exited(End),
    /// It failed.
    #[error("{0}")]
    Program(#[from] Trouble),
    /// Its time was over, or it was silent for too long.
    #[error("it took too long")]
    Late,
    /// It answered, but not like a program.
    #[error("{}", .0.reason())]
    BadHead(#[from] BadHead),
}

/// How a program ended, in words.
struct Ending(End);

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            End::Code(code) => write!(f, "code {code}"),
            End::Signal(signal) => write!(f, "signal {signal}"),
            End::Late => f.write_str("its time"),
        }
    }
}

impl From<Lost> for Failure {
    fn from(lost: Lost) -> Self {
        Self::Client(lost)
    }
}

impl Failure {
    /// The status of the answer, if the client is there to get one.
    pub(crate) fn status(&self) -> Option<Status> {
        Some(match self {
            Self::Client(_) => return None,
            Self::Content(rejection) => rejection.status(),
            Self::ContentLate => Status::RequestTimeout,
            Self::Start(error) if error.is_missing() => Status::NotFound,
            Self::Start(error) if error.is_refused() => Status::Forbidden,
            Self::Start(error) if error.is_passing() => Status::ServiceUnavailable,
            Self::Start(_) | Self::Exited(_) => Status::BadGateway,
            Self::Pipes(_) => Status::ServiceUnavailable,
            Self::Spool(_) | Self::QueueFull(_) | Self::QueueLate | Self::NoPool => {
                Status::ServiceUnavailable
            }
            Self::Program(Trouble::Refused(_)) => Status::ServiceUnavailable,
            Self::Connect(_) | Self::Program(_) | Self::BadHead(_) => Status::BadGateway,
            Self::Late => Status::GatewayTimeout,
        })
    }

    /// Whether the client's content was not read to its end, so that its connection cannot go on.
    pub(crate) fn leaves_content(&self) -> bool {
        matches!(self, Self::Content(_) | Self::ContentLate | Self::Spool(_) | Self::NoPool)
    }

    /// Whether whoever runs the server can do something about it.
    pub(crate) fn concerns_operator(&self) -> bool {
        !matches!(self, Self::Client(_) | Self::Content(_) | Self::ContentLate)
    }
}

/// An exchange that failed.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) failure: Failure,
    /// Whether the program had said nothing: if so, another may be asked.
    pub(crate) was_silent: bool,
    /// What the client had got, if it had got anything: its connection cannot go on then.
    pub(crate) sent: Option<Sent>,
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Self { failure, was_silent: true, sent: None }
    }
}

/// The end of a connection amid an answer.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) lost: Lost,
    /// What the log says, if the answer had begun.
    pub(crate) sent: Option<Sent>,
}

impl From<Lost> for Ended {
    fn from(lost: Lost) -> Self {
        Self { lost, sent: None }
    }
}
