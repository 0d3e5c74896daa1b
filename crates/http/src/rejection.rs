//! Reasons why the server refuses a request before it considers the target.
//!
//! A rejection is always the peer's fault and always ends the connection: after bytes that break
//! the framing, the start of the next request is unknown. Each kind has a status code and a
//! sentence for the error page and the counters. `tests/corpus/` has the table of inputs and kinds.

use crate::status::Status;

/// The error in a request. The connection must be closed after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// A CR that no LF follows.
    BareCr,
    /// An LF without a preceding CR.
    BareLf,
    /// More empty lines before the request line than tolerated.
    TooManyEmptyLines,
    /// No method, a byte that no method has, or a method longer than any in use.
    Method,
    /// A request target with a control byte, a space or a fragment, or none at all.
    Target,
    /// A target in a form that the method does not allow, or a URI of a scheme other than http and
    /// https.
    TargetForm,
    /// The request line is longer than the limit.
    RequestLineTooLong,
    /// The protocol version is not of the form `HTTP/1.1`.
    VersionSyntax,
    /// A well-formed version of another major number than 1.
    VersionUnsupported,
    /// A field line without a name or colon, or with a space or another foreign byte before the
    /// colon.
    FieldName,
    /// A field line that starts with white space: line folding, obsolete since RFC 7230.
    LineFolding,
    /// A control byte in a field value.
    FieldValue,
    /// More field lines than the limit.
    TooManyFields,
    /// The head is longer than the limit.
    HeadTooLong,
    /// HTTP/1.1 without `Host`.
    HostMissing,
    /// More than one `Host` line.
    HostRepeated,
    /// `Host`, or the authority of the target, is not a host with an optional port.
    HostSyntax,
    /// `Content-Length` is not one decimal number that fits.
    LengthSyntax,
    /// More than one `Content-Length` line, equal or not.
    LengthRepeated,
    /// Both `Content-Length` and `Transfer-Encoding`.
    LengthAndCoding,
    /// `Transfer-Encoding` that does not end in `chunked`, has `chunked` twice, or has two lines.
    CodingSyntax,
    /// A transfer coding other than `chunked`.
    CodingUnsupported,
    /// `Transfer-Encoding` in HTTP/1.0.
    CodingInOldVersion,
    /// An expectation other than `100-continue`.
    Expectation,
    /// More content than the limit.
    BodyTooLong,
    /// A chunk size that is not a hexadecimal number that fits.
    ChunkSize,
    /// A malformed chunk extension.
    ChunkExtension,
    /// More bytes of chunk extensions than the limit.
    ChunkExtensionsTooLong,
    /// A chunk's data are not followed by a line end.
    ChunkEnd,
    /// The trailer section is longer than the limit.
    TrailersTooLong,
}

impl Rejection {
    /// The status code of the answer.
    pub fn status(self) -> Status {
        self.describe().0
    }

    /// A sentence without a full stop, for the peer: the error in the request.
    pub fn reason(self) -> &'static str {
        self.describe().1
    }

    fn describe(self) -> (Status, &'static str) {
        use Status::*;
        match self {
            Self::BareCr => (BadRequest, "a carriage return stands alone"),
            Self::BareLf => (BadRequest, "a line ends without a carriage return"),
            Self::TooManyEmptyLines => (BadRequest, "too many empty lines before the request"),
            Self::Method => (BadRequest, "the method is not valid"),
            Self::Target => (BadRequest, "the request target is not valid"),
            Self::TargetForm => (BadRequest, "the request target has a form its method does not allow"),
            Self::RequestLineTooLong => (UriTooLong, "the request line is too long"),
            Self::VersionSyntax => (BadRequest, "the protocol version is not valid"),
            Self::VersionUnsupported => (HttpVersionNotSupported, "only HTTP/1.x is spoken here"),
            Self::FieldName => (BadRequest, "a header field's name is not valid"),
            Self::LineFolding => (BadRequest, "a header field line starts with white space"),
            Self::FieldValue => (BadRequest, "a header field's value holds a control character"),
            Self::TooManyFields => (RequestHeaderFieldsTooLarge, "there are too many header fields"),
            Self::HeadTooLong => (RequestHeaderFieldsTooLarge, "the request head is too long"),
            Self::HostMissing => (BadRequest, "the Host field is missing"),
            Self::HostRepeated => (BadRequest, "there is more than one Host field"),
            Self::HostSyntax => (BadRequest, "the host is not valid"),
            Self::LengthSyntax => (BadRequest, "Content-Length is not a decimal number"),
            Self::LengthRepeated => (BadRequest, "there is more than one Content-Length field"),
            Self::LengthAndCoding => {
                (BadRequest, "Content-Length and Transfer-Encoding contradict each other")
            }
            Self::CodingSyntax => (BadRequest, "Transfer-Encoding does not end in one chunked"),
            Self::CodingUnsupported => (NotImplemented, "only the transfer coding chunked is understood"),
            Self::CodingInOldVersion => (BadRequest, "HTTP/1.0 has no Transfer-Encoding"),
            Self::Expectation => (ExpectationFailed, "only the expectation 100-continue can be met"),
            Self::BodyTooLong => (ContentTooLarge, "the content is too long"),
            Self::ChunkSize => (BadRequest, "a chunk size is not valid"),
            Self::ChunkExtension => (BadRequest, "a chunk extension is not valid"),
            Self::ChunkExtensionsTooLong => (BadRequest, "the chunk extensions are too long"),
            Self::ChunkEnd => (BadRequest, "a chunk does not end where its size says"),
            Self::TrailersTooLong => (RequestHeaderFieldsTooLarge, "the trailer section is too long"),
        }
    }
}

impl std::fmt::Display for Rejection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "request refused with {}: {}", self.status().code(), self.reason())
    }
}

impl std::error::Error for Rejection {}

/// Why a pass over the bytes ended before the end of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParseStop {
    More,
    Reject(Rejection),
}

impl From<Rejection> for ParseStop {
    fn from(rejection: Rejection) -> Self {
        Self::Reject(rejection)
    }
}
