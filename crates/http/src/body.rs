//! The content of a request, found byte by byte: the position in the buffer, the end, and errors of
//! the framing.
//!
//! [`BodyReader`] reads the received bytes and reports how many bytes it consumed, and which of
//! these bytes are content. The reader holds no bytes, so a body of any size costs no memory.
//! Chunked framing (RFC 9112 §7.1) is the transition table of `body/chunked.rs`. `body/tests.rs`
//! checks that any cut of the input gives the same content, and that a plain decoder agrees;
//! `tests/corpus/` checks the refusals.

use std::ops::Range;

use crate::limits::ConnectionLimits;
use crate::rejection::Rejection;
use crate::request::Framing;

mod chunked;
#[cfg(test)]
mod tests;

use chunked::Chunks;

/// Reads the content of one request.
#[derive(Clone, Debug)]
pub struct BodyReader {
    state: BodyState,
}

#[derive(Clone, Debug)]
enum BodyState {
    Length { left: u64 },
    Chunked(Chunks),
    Done,
}

/// The result of one [`BodyReader::read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyStep {
    /// Consumed bytes of the input. The caller passes the remaining bytes again, after the caller
    /// has used the data.
    pub consumed: usize,
    /// The content among the consumed bytes; may be empty.
    pub data: Range<usize>,
    /// Whether the content ends here. The next request starts behind the consumed bytes.
    pub done: bool,
}

impl BodyReader {
    /// A reader for content framed by `framing`.
    ///
    /// # Errors
    /// [`Rejection::BodyTooLong`] if the length is known already and over
    /// [`ConnectionLimits::body_bytes`].
    pub fn new(framing: Framing, limits: &ConnectionLimits) -> Result<Self, Rejection> {
        let state = match framing {
            Framing::None | Framing::Length(0) => BodyState::Done,
            Framing::Length(length) if length > limits.body_bytes => return Err(Rejection::BodyTooLong),
            Framing::Length(left) => BodyState::Length { left },
            Framing::Chunked => BodyState::Chunked(Chunks::new(limits)),
        };
        Ok(Self { state })
    }

    /// Whether the content has ended.
    pub fn is_done(&self) -> bool {
        matches!(self.state, BodyState::Done)
    }

    /// Continues with `input`. Consumes at least one byte of a non-empty input unless the content
    /// has ended. One input may need several calls, because each call returns at most one run of
    /// content.
    ///
    /// # Errors
    ///
    /// The error of the framing, or the limit that was exceeded. The reader must not be used after
    /// an error.
    pub fn read(&mut self, input: &[u8]) -> Result<BodyStep, Rejection> {
        let step = match &mut self.state {
            BodyState::Done => BodyStep { consumed: 0, data: 0..0, done: true },
            BodyState::Length { left } => {
                let len = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                *left -= len as u64;
                BodyStep { consumed: len, data: 0..len, done: *left == 0 }
            }
            BodyState::Chunked(chunks) => chunks.read(input)?,
        };
        if step.done {
            self.state = BodyState::Done;
        }
        Ok(step)
    }
}
