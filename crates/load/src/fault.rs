//! The faults of a single request. Faults are counted, never logged one by one. Reports quote a few
//! malformed answers.
//!
//! Tested through the servers of `tests/`.

use std::io;

use crate::wire::MalformedAnswer;

/// The reason why a request has no good answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Fault {
    /// No process listens at the address.
    Refused,
    /// The address cannot be reached.
    Unreachable,
    /// The server reset the connection, or closed it instead of answering.
    Reset,
    /// The connection ended within the answer.
    Cut,
    /// The answer or the connection took too long.
    Timeout,
    /// The bytes are not an HTTP answer.
    Malformed,
    /// The status is unexpected.
    Status,
    /// The content is wrong.
    WrongBytes,
    /// A page of the support site says that it found no back end.
    NoBackEnd,
    /// The TLS handshake or record layer failed.
    Tls,
    /// This machine had no free descriptor, port or memory: the injector's fault.
    Local,
}

impl Fault {
    /// All faults, in the order of reports.
    pub const ALL: [Self; 11] = [
        Self::Refused,
        Self::Unreachable,
        Self::Reset,
        Self::Cut,
        Self::Timeout,
        Self::Malformed,
        Self::Status,
        Self::WrongBytes,
        Self::NoBackEnd,
        Self::Tls,
        Self::Local,
    ];

    /// The name in machine-readable results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Reset => "reset",
            Self::Cut => "cut",
            Self::Timeout => "timeout",
            Self::Malformed => "malformed",
            Self::Status => "status",
            Self::WrongBytes => "wrong_bytes",
            Self::NoBackEnd => "no_back_end",
            Self::Tls => "tls",
            Self::Local => "local",
        }
    }

    /// The meaning, for users.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Refused => "connection refused",
            Self::Unreachable => "address not reachable",
            Self::Reset => "reset, or closed without an answer",
            Self::Cut => "the connection ended inside the answer",
            Self::Timeout => "no answer in time",
            Self::Malformed => "malformed answer",
            Self::Status => "unexpected status",
            Self::WrongBytes => "wrong bytes",
            Self::NoBackEnd => "the page found no back end",
            Self::Tls => "TLS failed",
            Self::Local => "no descriptor or port left on this machine",
        }
    }
}

impl From<MalformedAnswer> for Fault {
    fn from(malformed: MalformedAnswer) -> Self {
        match malformed {
            MalformedAnswer::Truncated => Self::Cut,
            _ => Self::Malformed,
        }
    }
}

impl Fault {
    /// The fault for an error of a socket, or of TLS over the socket.
    pub(crate) fn of(error: &io::Error) -> Self {
        use io::ErrorKind::*;
        match error.kind() {
            _ if crate::tls_verify::is_of_tls(error) => Self::Tls,
            ConnectionRefused => Self::Refused,
            TimedOut => Self::Timeout,
            ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof | NotConnected => Self::Reset,
            HostUnreachable | NetworkUnreachable | NetworkDown => Self::Unreachable,
            AddrNotAvailable | AddrInUse | OutOfMemory => Self::Local,
            _ => match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
                Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE | rustix::io::Errno::NOBUFS) => {
                    Self::Local
                }
                _ => Self::Unreachable,
            },
        }
    }
}

/// A fault, and for a malformed answer the description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExchangeFailure {
    pub(crate) fault: Fault,
    /// The description, with bytes of the answer; for reports.
    pub(crate) malformed: Option<Box<str>>,
}

impl ExchangeFailure {
    /// The server broke a rule. `bytes` begin at the violation.
    pub(crate) fn malformed(malformed: MalformedAnswer, bytes: &[u8]) -> Self {
        let fault = Fault::from(malformed);
        let words = (fault == Fault::Malformed).then(|| malformed.words(bytes).into());
        Self { fault, malformed: words }
    }
}

impl From<Fault> for ExchangeFailure {
    fn from(fault: Fault) -> Self {
        Self { fault, malformed: None }
    }
}

impl From<io::Error> for ExchangeFailure {
    fn from(error: io::Error) -> Self {
        Fault::of(&error).into()
    }
}

/// The reason why an exchange has not answered all requests.
#[derive(Debug)]
pub(crate) enum StopReason {
    /// The server closed the idle connection before the requests were sent.
    Idle,
    /// The connection ended while the requests were on their way, so the end and the requests
    /// crossed.
    Crossing,
    /// The server announced that it does not begin the remaining requests: by `Connection: close`
    /// in the last answer, or by GOAWAY.
    Announced,
    /// The remaining requests have failed.
    Failed(ExchangeFailure),
}

impl From<ExchangeFailure> for StopReason {
    fn from(failure: ExchangeFailure) -> Self {
        Self::Failed(failure)
    }
}
