//! Parses answers: the end of the head, the framing and the end of the content, and violations.
//!
//! Framing is that of RFC 9112 §6.3: no content for HEAD, 1xx, 204 and 304; chunks; a length; or
//! all bytes until the connection closes. Interim answers (1xx) are skipped. The result never
//! depends on the cuts between reads: `response/tests.rs` cuts every answer everywhere. `head`
//! parses heads. `words` describes violations.

mod head;
#[cfg(test)]
mod tests;
mod words;

use serde::{Deserialize, Serialize};

use vermeil_http::{BodyReader, ConnectionLimits, Framing as Coding};

pub use head::LastHead;
use head::{AnswerFraming, HeadMeaning, parse_head};
pub(crate) use words::quoted;

/// Whether the connection carries another request after this request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reuse {
    /// The connection is kept.
    Keep,
    /// The connection ends.
    Close,
}

/// A complete answer, without head and content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeAnswer {
    /// The status code.
    pub status: u16,
    /// Bytes of content, without framing.
    pub content_bytes: u64,
    /// Whether the connection is kept.
    pub reuse: Reuse,
}

/// A violation of the protocol by the server in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedAnswer {
    /// The head is not an HTTP/1 head.
    #[error("the head of the answer is not HTTP/1")]
    Head,
    /// The head is longer than 64 KiB.
    #[error("the head of the answer has more than 64 KiB")]
    HeadTooLong,
    /// The head has more than 128 fields.
    #[error("the head of the answer has more than 128 fields")]
    TooManyFields,
    /// Contradictory or invalid lengths.
    #[error("the answer's Content-Length makes no sense")]
    Length,
    /// The chunked framing is invalid.
    #[error("the answer's chunked framing is broken")]
    Chunks,
    /// The server switched protocols without a request for a switch.
    #[error("the server switched protocols unasked")]
    Upgrade,
    /// The connection closed within the answer.
    #[error("the connection closed inside the answer")]
    Truncated,
    /// Bytes arrived without a request.
    #[error("the server sent bytes that answer no request")]
    Unasked,
}

/// The head of a final answer.
#[derive(Debug)]
pub struct FinalHead<'a> {
    /// The status code.
    pub status: u16,
    fields: &'a [httparse::Header<'a>],
}

impl<'a> FinalHead<'a> {
    /// The first field of this name; the case is ignored.
    pub fn field(&self, name: &str) -> Option<&'a [u8]> {
        let fields: &'a [httparse::Header<'a>] = self.fields;
        fields.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    }
}

/// A receiver of answers.
pub trait AnswerSink {
    /// Whether [`head`](Self::head) needs the head. A head with known bytes is not parsed again for
    /// a receiver without this need.
    const LOOKS_AT_HEADS: bool = true;

    /// The head of the final answer.
    fn head(&mut self, head: &FinalHead<'_>);
    /// The next bytes of the content.
    fn content(&mut self, bytes: &[u8]);
}

/// Ignores heads and content.
#[derive(Clone, Copy, Debug, Default)]
pub struct Discard;

impl AnswerSink for Discard {
    const LOOKS_AT_HEADS: bool = false;

    fn head(&mut self, _: &FinalHead<'_>) {}
    fn content(&mut self, _: &[u8]) {}
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputProgress {
    /// Number of consumed bytes. The caller must pass the rest again, with more bytes after the
    /// rest.
    pub consumed: usize,
    /// The complete answer.
    pub answer: Option<WholeAnswer>,
}

/// Reads the answers of a connection, one after the other.
#[derive(Debug, Default)]
pub struct AnswerReader {
    state: ReadState,
    status: u16,
    content_bytes: u64,
    closes: bool,
    stopped_at: usize,
}

#[derive(Debug, Default)]
enum ReadState {
    #[default]
    Head,
    /// Content of a known length; the number of remaining bytes.
    Length(u64),
    Chunks(Box<BodyReader>),
    UntilClose,
}

impl ReadState {
    fn of(framing: AnswerFraming) -> Self {
        match framing {
            AnswerFraming::Length(length) => Self::Length(length),
            AnswerFraming::Chunks => Self::Chunks(Box::new(chunks())),
            AnswerFraming::UntilClose => Self::UntilClose,
        }
    }
}

impl AnswerReader {
    /// Whether no part of an answer has been consumed.
    pub fn is_between(&self) -> bool {
        matches!(self.state, ReadState::Head)
    }

    /// The status of the answer whose content is being read.
    pub fn status_under_way(&self) -> Option<u16> {
        (!self.is_between()).then_some(self.status)
    }

    /// The position of the violation in the input of the last [`read`](Self::read).
    pub fn stopped_at(&self) -> usize {
        self.stopped_at
    }

    /// Parses `input` to the end of one answer at most. `is_head` says whether the request was a
    /// HEAD. `seen` is the last parsed head, of this connection or any other.
    ///
    /// # Errors
    /// [`MalformedAnswer`]; the connection is then unusable.
    pub fn read<S: AnswerSink>(
        &mut self,
        input: &[u8],
        is_head: bool,
        sink: &mut S,
        seen: &mut LastHead,
    ) -> Result<InputProgress, MalformedAnswer> {
        let mut consumed = 0;
        while matches!(self.state, ReadState::Head) {
            self.stopped_at = consumed;
            let rest = &input[consumed..];
            let known = if S::LOOKS_AT_HEADS { None } else { seen.find(rest) };
            let Some((head_bytes, meaning)) =
                known.map_or_else(|| parse_head(rest, sink), |known| Ok(Some(known)))?
            else {
                return Ok(InputProgress { consumed, answer: None });
            };
            if known.is_none() && !S::LOOKS_AT_HEADS {
                seen.keep(&rest[..head_bytes], meaning);
            }
            consumed += head_bytes;
            if meaning.status >= 200 {
                self.begin(meaning, is_head);
                break;
            }
        }
        self.stopped_at = consumed;
        let (bytes, done) = self.content(&input[consumed..], sink)?;
        Ok(InputProgress { consumed: consumed + bytes, answer: done.then(|| self.finish()) })
    }

    /// Begins the content of the final answer.
    fn begin(&mut self, meaning: HeadMeaning, is_head: bool) {
        let HeadMeaning { status, framing, closes } = meaning;
        let bare = is_head || status == 204 || status == 304;
        let framing = if bare { AnswerFraming::Length(0) } else { framing };
        self.status = status;
        self.closes = closes || matches!(framing, AnswerFraming::UntilClose);
        self.content_bytes = 0;
        self.state = ReadState::of(framing);
    }

    /// Handles the close of the connection. Returns the answer, if the close ends the answer.
    ///
    /// # Errors
    /// [`MalformedAnswer::Truncated`] within an answer.
    pub fn close(&mut self) -> Result<Option<WholeAnswer>, MalformedAnswer> {
        match self.state {
            ReadState::Head => Ok(None),
            ReadState::UntilClose => Ok(Some(self.finish())),
            ReadState::Length(_) | ReadState::Chunks(_) => Err(MalformedAnswer::Truncated),
        }
    }

    fn finish(&mut self) -> WholeAnswer {
        self.state = ReadState::Head;
        let reuse = if self.closes { Reuse::Close } else { Reuse::Keep };
        WholeAnswer { status: self.status, content_bytes: self.content_bytes, reuse }
    }

    /// Passes content to the sink. Returns the number of consumed bytes, and whether the content
    /// has ended.
    fn content(
        &mut self,
        input: &[u8],
        sink: &mut impl AnswerSink,
    ) -> Result<(usize, bool), MalformedAnswer> {
        match &mut self.state {
            ReadState::Head => unreachable!("content comes after a head"),
            ReadState::Length(left) => {
                let count = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                *left -= count as u64;
                let done = *left == 0;
                self.content_bytes += count as u64;
                sink.content(&input[..count]);
                Ok((count, done))
            }
            ReadState::UntilClose => {
                self.content_bytes += input.len() as u64;
                sink.content(input);
                Ok((input.len(), false))
            }
            ReadState::Chunks(chunks) => {
                let mut consumed = 0;
                while consumed < input.len() {
                    let rest = &input[consumed..];
                    let step = chunks.read(rest).map_err(|_| MalformedAnswer::Chunks)?;
                    self.content_bytes += step.data.len() as u64;
                    sink.content(&rest[step.data]);
                    consumed += step.consumed;
                    self.stopped_at += step.consumed;
                    if step.done {
                        return Ok((consumed, true));
                    }
                }
                Ok((consumed, false))
            }
        }
    }
}

/// A reader of chunks without a bound on the length.
fn chunks() -> BodyReader {
    let limits = ConnectionLimits { body_bytes: u64::MAX, ..ConnectionLimits::default() };
    BodyReader::new(Coding::Chunked, &limits).expect("chunks have no length to refuse")
}
