//! Protocol errors of a peer.

use crate::ids::{RecordKind, RequestId};
use thiserror::Error;

/// The reason why a connection must end: the peer's bytes are not FastCGI, or not of this request.
/// Close the connection, because nothing more can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FastcgiFault {
    /// The version is not 1: most likely the listener is no FastCGI application.
    #[error("reading a FastCGI record: its version is {0}, not 1; is the peer a FastCGI application?")]
    Version(u8),
    /// A record of another request: most likely late output of the previous request.
    #[error("reading a FastCGI record: it belongs to request {got}, not to {expected}")]
    OtherRequest {
        /// The current request.
        expected: RequestId,
        /// The number in the record.
        got: u16,
    },
    /// A record of a kind that only the other side may send, or out of order.
    #[error("reading a FastCGI record: {0:?} is out of place")]
    OutOfPlace(RecordKind),
    /// A record with an invalid length for its kind.
    #[error("reading a FastCGI record: {kind:?} cannot have {bytes} bytes")]
    Length {
        /// The kind of the record.
        kind: RecordKind,
        /// Bytes of the content.
        bytes: usize,
    },
    /// Parameters over [`PARAMS_BYTES_MAX`](crate::limits::PARAMS_BYTES_MAX).
    #[error("reading FastCGI parameters: they are longer than {} bytes", crate::limits::PARAMS_BYTES_MAX)]
    ParamsTooLong,
    /// Names and values that end within a pair.
    #[error("reading FastCGI parameters: a pair is cut short")]
    Pair,
}
