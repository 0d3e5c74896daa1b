//! Answers, found byte by byte: where the head ends, how the content is framed, where it ends, what is wrong with it.
//!
//! Framing is that of RFC 9112 §6.3: none for HEAD, 1xx, 204 and 304; chunks; a length; or all until the connection
//! closes. Interim answers (1xx) are passed over. What depends on the bytes never depends on how they were cut:
//! `response/tests.rs` cuts everything everywhere.

#[cfg(test)]
mod tests;

use std::mem::MaybeUninit;

use serde::{Deserialize, Serialize};

use vermeil_http::{BodyReader, Framing, Limits};

/// Longest head of an answer: twice what nginx and Apache would send through as a back end's.
pub(super) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Most fields of an answer's head.
pub(super) const FIELDS_MAX: usize = 128;

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
    /// The head is longer than 64 KiB or has more than 128 fields.
    #[error("the head of the answer is too long")]
    HeadTooLong,
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
    /// The head of the final answer.
    fn head(&mut self, head: &Head<'_>);
    /// The next bytes of its content.
    fn content(&mut self, bytes: &[u8]);
}

/// Looks at nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Discard;

impl Sink for Discard {
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

/// What a head says.
struct Parsed {
    head_bytes: usize,
    framing: State,
    status: u16,
    closes: bool,
}

impl ResponseReader {
    /// Whether nothing of an answer has been consumed.
    pub fn is_between(&self) -> bool {
        matches!(self.state, State::Head)
    }

    /// Reads on in `input`, to the end of one answer at most. `is_head` says whether the request was a HEAD.
    ///
    /// # Errors
    /// [`Malformed`]; the connection is of no use then.
    pub fn read(&mut self, input: &[u8], is_head: bool, sink: &mut impl Sink) -> Result<Progress, Malformed> {
        let mut consumed = 0;
        while matches!(self.state, State::Head) {
            let Some(parsed) = parse_head(&input[consumed..], is_head, sink)? else {
                return Ok(Progress { consumed, answer: None });
            };
            consumed += parsed.head_bytes;
            if parsed.status >= 200 {
                self.status = parsed.status;
                self.closes = parsed.closes;
                self.content_bytes = 0;
                self.state = parsed.framing;
                break;
            }
        }
        let (bytes, done) = self.content(&input[consumed..], sink)?;
        Ok(Progress { consumed: consumed + bytes, answer: done.then(|| self.finish()) })
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
                    if step.done {
                        return Ok((consumed, true));
                    }
                }
                Ok((consumed, false))
            }
        }
    }
}

/// Parses a head; nothing if it is not all there.
fn parse_head(input: &[u8], is_head: bool, sink: &mut impl Sink) -> Result<Option<Parsed>, Malformed> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        input,
        &mut fields,
    );
    let head_bytes = match parsed {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) if input.len() > HEAD_BYTES_MAX => return Err(Malformed::HeadTooLong),
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Malformed::HeadTooLong),
        Err(_) => return Err(Malformed::Head),
    };
    let status = response.code.ok_or(Malformed::Head)?;
    let is_old = response.version == Some(0);
    let said = Said::by(response.headers)?;
    if status == 101 {
        return Err(Malformed::Upgrade);
    }
    if status >= 200 {
        sink.head(&Head { status, fields: response.headers });
    }
    let bare = is_head || status == 204 || status == 304 || status < 200;
    let framing = match said {
        _ if bare => State::Length(0),
        Said { chunked: Some(true), .. } => State::Chunks(Box::new(chunks())),
        Said { chunked: Some(false), .. } => State::UntilClose,
        Said { length: Some(length), .. } => State::Length(length),
        Said { .. } => State::UntilClose,
    };
    let closes = said.close || (is_old && !said.keep_alive) || matches!(framing, State::UntilClose);
    Ok(Some(Parsed { head_bytes, framing, status, closes }))
}

/// A reader of chunks of any length.
fn chunks() -> BodyReader {
    let limits = Limits { body_bytes: u64::MAX, ..Limits::default() };
    BodyReader::new(Framing::Chunked, &limits).expect("chunks have no length to refuse")
}

/// What the fields say about framing and the connection.
#[derive(Default)]
struct Said {
    length: Option<u64>,
    /// Whether a transfer coding is there, and whether the last one is chunked.
    chunked: Option<bool>,
    close: bool,
    keep_alive: bool,
}

impl Said {
    fn by(fields: &[httparse::Header<'_>]) -> Result<Self, Malformed> {
        let mut said = Self::default();
        for field in fields {
            // The three names differ in length, so most fields cost one comparison of numbers.
            match field.name.len() {
                14 if field.name.eq_ignore_ascii_case("content-length") => {
                    said.content_length(field.value)?
                }
                10 if field.name.eq_ignore_ascii_case("connection") => said.connection(field.value),
                17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                    let last = list(field.value).last().unwrap_or_default();
                    said.chunked = Some(last.eq_ignore_ascii_case(b"chunked"));
                }
                _ => {}
            }
        }
        Ok(said)
    }

    fn content_length(&mut self, value: &[u8]) -> Result<(), Malformed> {
        for value in list(value) {
            let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
            let text = std::str::from_utf8(value).ok().filter(|_| digits);
            let length = text.and_then(|text| text.parse().ok()).ok_or(Malformed::Length)?;
            if self.length.replace(length).is_some_and(|before| before != length) {
                return Err(Malformed::Length);
            }
        }
        Ok(())
    }

    fn connection(&mut self, value: &[u8]) {
        for option in list(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }
}

fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}
