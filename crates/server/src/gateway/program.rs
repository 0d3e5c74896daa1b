//! A program as the relay sees it: bytes go in, bytes come out, both may have to wait, and either may fail.
//!
//! Both halves are used at once: a program may answer before it has read what it was sent.

use bytes::Bytes;
use std::io;
use thiserror::Error;
use vermeil_fastcgi::{Fault, ProtocolStatus};

use super::{ErrorLines, Written};

/// What goes to a program.
pub(crate) trait Writer {
    /// Hands a piece of content over, once the program's side has taken what came before. `last` says that nothing
    /// follows: the program is told so. An empty last piece is only the end.
    fn write(&mut self, piece: Bytes, last: Last) -> impl Future<Output = Result<(), Trouble>> + Send;
}

/// Whether more content follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    Yes,
    No,
}

/// What comes from a program.
pub(crate) trait Reader {
    /// Appends what the program has written to `output`, and its error output to `errors`; waits until there is
    /// something. Dropping the future loses nothing.
    fn read(
        &mut self,
        output: &mut Written,
        errors: &mut ErrorLines,
    ) -> impl Future<Output = Result<Read, Trouble>> + Send;

    /// Whether what was read ends amid something that the program has begun to write, so that more is about to come.
    fn is_amid(&self) -> bool;
}

/// What reading came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// Something was read, of either output.
    Some,
    /// That was all; some may have come with it.
    End,
}

/// Why a program cannot be spoken to, or not any more.
#[derive(Debug, Error)]
pub(crate) enum Trouble {
    /// Its connection failed.
    #[error("its connection failed: {0}")]
    Connection(#[from] io::Error),
    /// It ended before its answer did.
    #[error("it ended before its answer did")]
    Ended,
    /// What it sent is not the protocol.
    #[error("{0}")]
    Protocol(#[from] Fault),
    /// It did not take the request.
    #[error("it refused the request: {0:?}")]
    Refused(ProtocolStatus),
}
