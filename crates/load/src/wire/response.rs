//! Answers, found byte by byte: where the head ends, how the content is framed, where it ends, what is wrong with it.
//!
//! Framing is that of RFC 9112 §6.3: none for HEAD, 1xx, 204 and 304; chunks; a length; or all until the connection
//! closes. Interim answers (1xx) are passed over. What depends on the bytes never depends on how they were cut:
//! `response/tests.rs` cuts everything everywhere. Heads are taken apart in `head`; `words` says what is malformed.

mod head;
#[cfg(test)]
mod tests;
mod words;

use serde::{Deserialize, Serialize};

use vermeil_http::{BodyReader, Framing as Coding, Limits};

pub use head::Seen;
use head::{Framing, Meaning, parse_head};
pub(crate) use words::quoted;

/// Whether the connection carries another request after this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reuse {
    /// It does.
    Keep,
    /// It ends.
    Close,
}

/// A whole answer, as far as everybody wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Bytes of content, without its framing.
    pub content_bytes: u64,
    /// What becomes of the connection.
    pub reuse: Reuse,
}

/// What an answer's bytes say that no answer may say. The server is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The head is no HTTP/1 head.
    #[error("the head of the answer is not HTTP/1")]
    Head,
    /// The head is longer than 64 KiB.
    #[error("the head of the answer has more than 64 KiB")]
    HeadTooLong,
    /// The head has more than 128 fields.
    #[error("the head of the answer has more than 128 fields")]
    TooManyFields,
    /// Lengths that contradict each other, or are no numbers.
    #[error("the answer's Content-Length makes no sense")]
    Length,
    /// The chunks are no chunks.
    #[error("the answer's chunked framing is broken")]
    Chunks,
    /// The protocol was changed, which nobody asked for.
    #[error("the server switched protocols unasked")]
    Upgrade,
    /// The connection closed inside the answer.
    #[error("the connection closed inside the answer")]
    Truncated,
    /// Bytes came that answer no request.
    #[error("the server sent bytes that answer no request")]
    Unasked,
}

/// The head of a final answer, while it is being looked at.
#[derive(Debug)]
pub struct Head<'a> {
    /// The status code.
    pub status: u16,
    fields: &'a [httparse::Header<'a>],
}

impl<'a> Head<'a> {
    /// The first field of this name, whatever its case.
    pub fn field(&self, name: &str) -> Option<&'a [u8]> {
        let fields: &'a [httparse::Header<'a>] = self.fields;
        fields.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    }
}

/// Who looks at answers as they come.
pub trait Sink {
    /// Whether [`head`](Self::head) does anything. A head whose bytes were seen before is not taken apart for who does not look.
    const LOOKS_AT_HEADS: bool = true;

    /// The head of the final answer.
    fn head(&mut self, head: &Head<'_>);
    /// The next bytes of its content.
    fn content(&mut self, bytes: &[u8]);
}

/// Looks at nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Discard;

impl Sink for Discard {
    const LOOKS_AT_HEADS: bool = false;

    fn head(&mut self, _: &Head<'_>) {}
    fn content(&mut self, _: &[u8]) {}
}

/// What became of some input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that are done with. The rest must be given again, with more behind it.
    pub consumed: usize,
    /// The answer, once it is whole.
    pub answer: Option<Answer>,
}

/// Reads the answers of one connection, one after the other.
#[derive(Debug, Default)]
pub struct ResponseReader {
    state: State,
    status: u16,
    content_bytes: u64,
    closes: bool,
    stopped_at: usize,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Head,
    /// Content of a known length; this much is left.
    Length(u64),
    Chunks(Box<BodyReader>),
    UntilClose,
}

impl State {
    fn of(framing: Framing) -> Self {
        match framing {
            Framing::Length(length) => Self::Length(length),
            Framing::Chunks => Self::Chunks(Box::new(chunks())),
            Framing::UntilClose => Self::UntilClose,
        }
    }
}

impl ResponseReader {
    /// Whether nothing of an answer has been consumed.
    pub fn is_between(&self) -> bool {
        matches!(self.state, State::Head)
    }

    /// The status of the answer whose content is being read.
    pub fn status_under_way(&self) -> Option<u16> {
        (!self.is_between()).then_some(self.status)
    }

    /// Where in its input the last [`read`](Self::read) came upon what is malformed.
    pub fn stopped_at(&self) -> usize {
        self.stopped_at
    }

    /// Reads on in `input`, to the end of one answer at most. `is_head` says whether the request was a HEAD; `seen` is what
    /// was read before, on this connection or any other.
    ///
    /// # Errors
    /// [`Malformed`]; the connection is of no use then.
    pub fn read<S: Sink>(
        &mut self,
        input: &[u8],
        is_head: bool,
        sink: &mut S,
        seen: &mut Seen,
    ) -> Result<Progress, Malformed> {
        let mut consumed = 0;
        while matches!(self.state, State::Head) {
            self.stopped_at = consumed;
            let rest = &input[consumed..];
            let known = if S::LOOKS_AT_HEADS { None } else { seen.find(rest) };
            let Some((head_bytes, meaning)) =
                known.map_or_else(|| parse_head(rest, sink), |known| Ok(Some(known)))?
            else {
                return Ok(Progress { consumed, answer: None });
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
        Ok(Progress { consumed: consumed + bytes, answer: done.then(|| self.finish()) })
    }

    /// The head of the final answer is read.
    fn begin(&mut self, meaning: Meaning, is_head: bool) {
        let Meaning { status, framing, closes } = meaning;
        let bare = is_head || status == 204 || status == 304;
        let framing = if bare { Framing::Length(0) } else { framing };
        self.status = status;
        self.closes = closes || matches!(framing, Framing::UntilClose);
        self.content_bytes = 0;
        self.state = State::of(framing);
    }

    /// The connection has closed: the answer, if that is how it ends.
    ///
    /// # Errors
    /// [`Malformed::Truncated`] inside an answer.
    pub fn close(&mut self) -> Result<Option<Answer>, Malformed> {
        match self.state {
            State::Head => Ok(None),
            State::UntilClose => Ok(Some(self.finish())),
            State::Length(_) | State::Chunks(_) => Err(Malformed::Truncated),
        }
    }

    fn finish(&mut self) -> Answer {
        self.state = State::Head;
        let reuse = if self.closes { Reuse::Close } else { Reuse::Keep };
        Answer { status: self.status, content_bytes: self.content_bytes, reuse }
    }

    /// Passes content on; gives the bytes consumed and whether it has ended.
    fn content(&mut self, input: &[u8], sink: &mut impl Sink) -> Result<(usize, bool), Malformed> {
        match &mut self.state {
            State::Head => unreachable!("content comes after a head"),
            State::Length(left) => {
                let count = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                *left -= count as u64;
                let done = *left == 0;
                self.content_bytes += count as u64;
                sink.content(&input[..count]);
                Ok((count, done))
            }
            State::UntilClose => {
                self.content_bytes += input.len() as u64;
                sink.content(input);
                Ok((input.len(), false))
            }
            State::Chunks(chunks) => {
                let mut consumed = 0;
                while consumed < input.len() {
                    let rest = &input[consumed..];
                    let step = chunks.read(rest).map_err(|_| Malformed::Chunks)?;
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

/// A reader of chunks of any length.
fn chunks() -> BodyReader {
    let limits = Limits { body_bytes: u64::MAX, ..Limits::default() };
    BodyReader::new(Coding::Chunked, &limits).expect("chunks have no length to refuse")
}
