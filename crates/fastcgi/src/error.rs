//! What is wrong with what a peer sent.

use crate::records::{Kind, RequestId};
use thiserror::Error;

/// Why a connection cannot go on: what its peer sent is not FastCGI, or not of this request. Nothing more can be read
/// from it; close it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// The version is not 1: most likely no FastCGI application listens there.
    #[error("reading a FastCGI record: its version is {0}, not 1; is the peer a FastCGI application?")]
    Version(u8),
    /// A record of another request: late output of one before, most likely.
    #[error("reading a FastCGI record: it belongs to request {got}, not to {expected}")]
    OtherRequest {
        /// The request that is under way.
        expected: RequestId,
        /// The number in the record.
        got: u16,
    },
    /// A record of a kind that only the other side may send, or out of its order.
    #[error("reading a FastCGI record: {0:?} is out of place")]
    OutOfPlace(Kind),
    /// A record that is longer or shorter than its kind can be.
    #[error("reading a FastCGI record: {kind:?} cannot have {bytes} bytes")]
    Length {
        /// What the record says it is.
        kind: Kind,
        /// Bytes of its content.
        bytes: usize,
    },
    /// Parameters over [`PARAMS_BYTES_MAX`](crate::limits::PARAMS_BYTES_MAX).
    #[error("reading FastCGI parameters: they are longer than {} bytes", crate::limits::PARAMS_BYTES_MAX)]
    ParamsTooLong,
    /// Names and values that end amid a pair.
    #[error("reading FastCGI parameters: a pair is cut short")]
    Pair,
}
