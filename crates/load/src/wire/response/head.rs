//! Heads of answers, taken apart: status, framing, what becomes of the connection.
//!
//! An injector reads the same head again and again: what was asked for is the same, and a date changes once a second. So the
//! last one is kept with its meaning ([`Seen`]), and comparing its bytes takes the place of parsing, which was two fifths of
//! the instructions of a request. Leaves out what HEAD and bodyless statuses make of the framing (`response`). Tested in
//! `response/tests.rs`.

use std::mem::MaybeUninit;

use super::{Head, Malformed, Sink};

/// Longest head of an answer: twice what nginx and Apache would send through as a back end's.
pub(super) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Most fields of an answer's head.
pub(super) const FIELDS_MAX: usize = 128;
/// Longest head that is kept. A guess: most are shorter, and it stays in a core's nearest cache.
const SEEN_BYTES_MAX: usize = 2048;

/// How content is framed, if there is any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunks,
    UntilClose,
}

/// What a head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meaning {
    pub(super) status: u16,
    pub(super) framing: Framing,
    pub(super) closes: bool,
}

/// The last head that was taken apart, and what it says. One for all connections of a core.
#[derive(Debug, Default)]
pub struct Seen {
    bytes: Vec<u8>,
    meaning: Option<Meaning>,
}

impl Seen {
    /// What the head that `input` begins with says, if it is the last one, and its length.
    #[inline]
    pub(super) fn find(&self, input: &[u8]) -> Option<(usize, Meaning)> {
        let meaning = self.meaning?;
        // A whole head ends in an empty line, so nothing longer begins with it.
        input.starts_with(&self.bytes).then_some((self.bytes.len(), meaning))
    }

    /// Keeps a whole head.
    pub(super) fn keep(&mut self, head: &[u8], meaning: Meaning) {
        if head.len() <= SEEN_BYTES_MAX {
            self.bytes.clear();
            self.bytes.extend_from_slice(head);
            self.meaning = Some(meaning);
        }
    }
}

/// Takes a head apart, and gives its length; nothing if it is not all there. Interim heads are not shown to `sink`.
pub(super) fn parse_head(input: &[u8], sink: &mut impl Sink) -> Result<Option<(usize, Meaning)>, Malformed> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        input,
        &mut fields,
    );
    let head_bytes = match parsed {
        Ok(httparse::Status::Complete(bytes)) if bytes > HEAD_BYTES_MAX => {
            return Err(Malformed::HeadTooLong);
        }
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) if input.len() > HEAD_BYTES_MAX => return Err(Malformed::HeadTooLong),
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Malformed::TooManyFields),
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
    let framing = match said {
        Said { chunked: Some(true), .. } => Framing::Chunks,
        Said { chunked: Some(false), .. } => Framing::UntilClose,
        Said { length: Some(length), .. } => Framing::Length(length),
        Said { .. } => Framing::UntilClose,
    };
    let closes = said.close || (is_old && !said.keep_alive);
    Ok(Some((head_bytes, Meaning { status, framing, closes })))
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
