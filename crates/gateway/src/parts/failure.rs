//! The ways in which relaying can fail, the party at fault, and the resulting answer.

use super::{program::Trouble, spool::SpoolError};
use std::time::Duration;
use thiserror::Error;
use vermeil_exchange::{Lost, Sent};
use vermeil_fastcgi::limits::CONTENT_BYTES_MAX;
use vermeil_http::{Rejection, Status, gateway::BadHead};
use vermeil_spawn::{ProgramEnd, SpawnError};

/// The kind of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayKind {
    /// CGI.
    Cgi,
    /// PHP.
    Php,
}

/// Where bounds are configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfiguredBy {
    /// By options of a command line.
    Option,
    /// By keys of a configuration.
    Key,
}

/// Why a request was not answered by its program.
#[derive(Debug, Error)]
pub enum Failure {
    /// The client has closed the connection, or was disconnected.
    #[error("the client has gone")]
    Client(Lost),
    /// The client's content cannot be read.
    #[error("{}", .0.reason())]
    Content(Rejection),
    /// The client's content did not come in time.
    #[error("the content did not come in time")]
    ContentLate,
    /// A variable of the request does not fit into a FastCGI record, and PHP reads no other.
    #[error(
        "a field of the request, or its target, is longer than the {CONTENT_BYTES_MAX} bytes that PHP reads"
    )]
    VariableTooLong,
    /// There is no room for the client's content.
    #[error("{0}")]
    Spool(SpoolError),
    /// The client's content cannot be read back from the file that keeps it.
    #[error("the content cannot be read from its file in spool_folder: {0}")]
    ContentUnread(std::io::Error),
    /// All programs are busy, and the queue of requests is full.
    #[error("{0} requests wait for it already")]
    QueueFull(usize),
    /// The host has no pool.
    #[error("there is no pool for it")]
    NoPool,
    /// No program became free in time.
    #[error("none was free within {} s", .0.as_secs_f64())]
    QueueLate(Duration),
    /// The pool of PHP did not run in time.
    #[error(
        "its pool did not run within {} s: the notices about the pool say why; without such a notice, other pools have \
         all places (pools_max in [php])", .0.as_secs_f64()
    )]
    NotRunning(Duration),
    /// The server could not connect to the program.
    #[error(
        "it does not answer at {address}: {source}; start the pool, or name its address by source in [php]"
    )]
    Connect {
        /// The address of the program.
        address: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// No connection in time.
    #[error("it took no connection within {} s, which no key changes: it is overloaded, or hangs", .0.as_secs_f64())]
    ConnectLate(Duration),
    /// No descriptors are left for the program's pipes, or for a connection to the program.
    #[error("it cannot be connected to: {0} (raise the limit of open files?)")]
    Pipes(std::io::Error),
    /// The spawner did not start the program.
    #[error("{0}")]
    Start(SpawnError),
    /// The program ended before its answer, in this way.
    #[error("it ended with {} before its answer did", ProgramEnding(*.0))]
    Exited(ProgramEnd),
    /// The exchange with the program failed.
    #[error("{0}")]
    Program(#[from] Trouble),
    /// The program neither sent nor read anything for this time.
    #[error("it was silent for {} s", .0.as_secs_f64())]
    Silent(Duration),
    /// The program reached its time limit.
    #[error("it ran for longer than {} s", .0.as_secs_f64())]
    Late(Duration),
    /// The head of the program's answer is invalid.
    #[error("{}", .0.reason())]
    BadHead(#[from] BadHead),
}

/// How a program ended, in words.
struct ProgramEnding(ProgramEnd);

impl std::fmt::Display for ProgramEnding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            ProgramEnd::Code(code) => write!(f, "code {code}"),
            // Also the kernel's end of a process that has used its `cpu_time`.
            ProgramEnd::Signal(9) => f.write_str(
                "signal 9 (for want of memory, beyond cpu_time in [host.cgi], or by another process)",
            ),
            ProgramEnd::Signal(signal) => write!(f, "signal {signal}"),
            ProgramEnd::Late => f.write_str("its time"),
        }
    }
}

impl From<Lost> for Failure {
    fn from(lost: Lost) -> Self {
        Self::Client(lost)
    }
}

impl Failure {
    /// The status of the answer. `None` if the client has gone.
    pub fn status(&self) -> Option<Status> {
        Some(match self {
            Self::Client(_) => return None,
            Self::Content(rejection) => rejection.status(),
            Self::ContentLate => Status::RequestTimeout,
            Self::VariableTooLong => Status::RequestHeaderFieldsTooLarge,
            Self::Start(error) if error.is_missing() => Status::NotFound,
            Self::Start(error) if error.is_refused() => Status::Forbidden,
            Self::Start(error) if error.is_passing() => Status::ServiceUnavailable,
            Self::Start(_) | Self::Exited(_) => Status::BadGateway,
            Self::Pipes(_) => Status::ServiceUnavailable,
            Self::Spool(_)
            | Self::ContentUnread(_)
            | Self::QueueFull(_)
            | Self::QueueLate(_)
            | Self::NotRunning(_)
            | Self::NoPool => Status::ServiceUnavailable,
            Self::Program(Trouble::Refused(_)) => Status::ServiceUnavailable,
            Self::Connect { .. } | Self::Program(_) | Self::BadHead(_) => Status::BadGateway,
            Self::ConnectLate(_) | Self::Silent(_) | Self::Late(_) => Status::GatewayTimeout,
        })
    }

    /// The option or key of the limit that was reached, if the limit is configurable.
    pub fn limit_key(&self, kind: GatewayKind, said: ConfiguredBy) -> Option<&'static str> {
        Some(match (self, kind, said) {
            (Self::QueueFull(_), GatewayKind::Php, ConfiguredBy::Option) => {
                "--php-queue, or more --php-children"
            }
            (Self::QueueFull(_), GatewayKind::Php, ConfiguredBy::Key) => {
                "queue_max in [php], or in its [host.php], or more children"
            }
            (Self::QueueFull(_), GatewayKind::Cgi, ConfiguredBy::Option) => {
                "--cgi-queue, or a higher --cgi-max"
            }
            (Self::QueueFull(_), GatewayKind::Cgi, ConfiguredBy::Key) => {
                "host_waiting_max in [cgi], or a higher running_max or host_running_max"
            }
            (Self::QueueLate(_), GatewayKind::Php, ConfiguredBy::Option) => {
                "--programs-queue-timeout, or more --php-children"
            }
            (Self::QueueLate(_), GatewayKind::Php, ConfiguredBy::Key) => {
                "queue_timeout in [programs], or more children"
            }
            (Self::QueueLate(_), GatewayKind::Cgi, ConfiguredBy::Option) => {
                "--programs-queue-timeout, or a higher --cgi-max"
            }
            (Self::QueueLate(_), GatewayKind::Cgi, ConfiguredBy::Key) => {
                "queue_timeout in [programs], or a higher running_max or host_running_max in [cgi]"
            }
            (Self::Silent(_), _, ConfiguredBy::Option) => "--programs-timeout",
            (Self::Silent(_), _, ConfiguredBy::Key) => "timeout in [programs]",
            (Self::Content(Rejection::BodyTooLong), _, ConfiguredBy::Option) => "--programs-body-bytes",
            (Self::Content(Rejection::BodyTooLong), _, ConfiguredBy::Key) => "body_bytes in [programs]",
            (Self::Late(_), _, ConfiguredBy::Option) => "--cgi-timeout",
            (Self::Late(_), _, ConfiguredBy::Key) => "timeout in [cgi], or in its [host.cgi]",
            _ => return None,
        })
    }

    /// Whether part of the client's content was left unread, so that the connection must close.
    pub fn leaves_content(&self) -> bool {
        matches!(self, Self::Content(_) | Self::ContentLate | Self::Spool(_) | Self::NoPool)
    }

    /// Whether the operator of the server can correct the fault.
    pub fn concerns_operator(&self) -> bool {
        !matches!(self, Self::Client(_) | Self::Content(_) | Self::ContentLate | Self::VariableTooLong)
    }
}

/// An exchange that failed.
#[derive(Debug)]
pub struct Broken {
    /// The reason.
    pub failure: Failure,
    /// Whether the program had sent nothing. If so, the request may go to another program.
    pub was_silent: bool,
    /// The part of the answer that the client has received, if any. The connection cannot continue
    /// after a part.
    pub sent: Option<Sent>,
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Self { failure, was_silent: true, sent: None }
    }
}

/// The end of a connection during an answer.
#[derive(Debug)]
pub struct EndedAnswer {
    /// The reason.
    pub lost: Lost,
    /// The log's record, if the answer had begun.
    pub sent: Option<Sent>,
}

impl From<Lost> for EndedAnswer {
    fn from(lost: Lost) -> Self {
        Self { lost, sent: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn killed_program_names_possible_limit() {
        let failure = Failure::Exited(ProgramEnd::Signal(9)).to_string();
        assert!(failure.starts_with("it ended with signal 9 (") && failure.contains("cpu_time"), "{failure}");
    }

    /// Regression: the messages said that a limit was exceeded without naming the limit.
    #[test]
    fn notice_names_limit_and_option() {
        let time = Duration::from_millis(1500);
        for (failure, says, status, keys) in [
            (Failure::QueueFull(3), "3 requests wait for it already", 503, true),
            (Failure::QueueLate(time), "none was free within 1.5 s", 503, true),
            (Failure::ConnectLate(time), "it took no connection within 1.5 s", 504, false),
            (Failure::Silent(time), "it was silent for 1.5 s", 504, true),
            (Failure::Late(time), "it ran for longer than 1.5 s", 504, true),
        ] {
            assert!(failure.to_string().starts_with(says), "{failure}");
            assert_eq!(failure.status().map(Status::code), Some(status), "{failure}");
            for kind in [GatewayKind::Cgi, GatewayKind::Php] {
                assert_eq!(failure.limit_key(kind, ConfiguredBy::Key).is_some(), keys);
                assert_eq!(failure.limit_key(kind, ConfiguredBy::Option).is_some(), keys);
            }
            assert_eq!(failure.to_string().contains("which no key changes"), !keys, "{failure}");
        }
        assert_eq!(Failure::NoPool.limit_key(GatewayKind::Php, ConfiguredBy::Key), None);
    }
}
