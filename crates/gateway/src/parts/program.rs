//! A program as the relay sees it: two streams of bytes. Each stream may have to wait, and each may
//! fail.
//!
//! The relay uses both halves at once, because a program may answer before it has read all its
//! content.

use bytes::Bytes;
use std::{io, time::Duration};
use thiserror::Error;
use vermeil_fastcgi::{FastcgiFault, ProtocolStatus};

use super::{ErrorLines, ResponseBuffer};

/// How long the end of the output waits for the end of the program's work, which usually comes
/// within a millisecond.
pub(crate) const END_SOON: Duration = Duration::from_millis(5);

/// A program that was found. The paths are relative to the root, and decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundProgram {
    /// The path of the program's file. Starts with a slash.
    pub script: Vec<u8>,
    /// The rest of the request's path. Empty, or starts with a slash.
    pub path_info: Vec<u8>,
}

/// The stream to a program.
pub(crate) trait ProgramWriter {
    /// Writes a piece of content, once the program's side has taken the previous piece. With `last`
    /// the writer tells the program that nothing follows. An empty last piece only marks the end.
    fn write(&mut self, piece: Bytes, last: Last) -> impl Future<Output = Result<(), Trouble>> + Send;
}

/// Whether more content follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    Yes,
    No,
}

/// The stream from a program.
pub(crate) trait ProgramReader {
    /// Appends the program's output to `output` and its error output to `errors`. Waits until there
    /// is some. Dropping the future loses nothing.
    fn read(
        &mut self,
        output: &mut ResponseBuffer,
        errors: &mut ErrorLines,
    ) -> impl Future<Output = Result<ProgramRead, Trouble>> + Send;

    /// Whether the output ends inside a record that the program has begun to write, so that more
    /// output is about to come.
    fn is_amid(&self) -> bool;
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgramRead {
    /// Some output or error output was read.
    Some,
    /// The stream has ended. The last read may also have brought output.
    End,
}

/// Why the exchange with a program failed.
#[derive(Debug, Error)]
pub enum Trouble {
    /// The connection failed.
    #[error("its connection failed: {0}")]
    Connection(#[from] io::Error),
    /// The answer could not be compressed.
    #[error("its answer cannot be compressed: {0}")]
    Coding(io::Error),
    /// The program ended before its answer was complete.
    #[error("it ended before its answer did")]
    Ended,
    /// The program violated the protocol.
    #[error("{0}")]
    Protocol(#[from] FastcgiFault),
    /// The program refused the request.
    #[error("it refused the request: {0:?}")]
    Refused(ProtocolStatus),
}
