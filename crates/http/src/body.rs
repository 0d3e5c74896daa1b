//! The content of a request, found byte by byte: where it is in the buffer, where it ends, what is wrong with
//! it.
//!
//! [`BodyReader`] is fed whatever has arrived and says how much of it it consumed and which part of that was
//! content. It holds no bytes, so a body costs no memory whatever its size. Chunked framing (RFC 9112 §7.1)
//! is the transition table of `body/chunked.rs`. That any cut gives the same content, and that a plain
//! decoder gives it too, is tested in `body/tests.rs`; what is refused, in `tests/corpus/`.

use std::ops::Range;

use crate::limits::Limits;
use crate::rejection::Rejection;
use crate::request::Framing;

mod chunked;
#[cfg(test)]
mod tests;

use chunked::Chunks;

/// Reads the content of one request.
#[derive(Clone, Debug)]
pub struct BodyReader {
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Length { left: u64 },
    Chunked(Chunks),
    Done,
}

/// What [`BodyReader::read`] found in its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that are done with. The rest, if any, is to be given again, after the caller has
    /// used the data.
    pub consumed: usize,
    /// Which of the consumed bytes are content; may be empty.
    pub data: Range<usize>,
    /// Whether the content ends here. The next request starts behind the consumed bytes.
    pub done: bool,
}

impl BodyReader {
    /// A reader for content framed by `framing`.
    ///
    /// # Errors
    /// [`Rejection::BodyTooLong`] if the length is known already and over [`Limits::body_bytes`].
    pub fn new(framing: Framing, limits: &Limits) -> Result<Self, Rejection> {
        let state = match framing {
            Framing::None | Framing::Length(0) => State::Done,
            Framing::Length(length) if length > limits.body_bytes => return Err(Rejection::BodyTooLong),
            Framing::Length(left) => State::Length { left },
            Framing::Chunked => State::Chunked(Chunks::new(limits)),
        };
        Ok(Self { state })
    }

    /// Whether the content has ended.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Reads on in `input`. Consumes at least one byte of a non-empty input unless the content has ended;
    /// several calls may be needed for one input, since each gives one run of content at most.
    ///
    /// # Errors
    /// What is wrong with the framing, or the limit that was passed. The reader must not be used after an
    /// error.
    pub fn read(&mut self, input: &[u8]) -> Result<Step, Rejection> {
        let step = match &mut self.state {
            State::Done => Step { consumed: 0, data: 0..0, done: true },
            State::Length { left } => {
                let len = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                *left -= len as u64;
                Step { consumed: len, data: 0..len, done: *left == 0 }
            }
            State::Chunked(chunks) => chunks.read(input)?,
        };
        if step.done {
            self.state = State::Done;
        }
        Ok(step)
    }
}
