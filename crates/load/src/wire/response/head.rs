//! Parses heads of answers: status, framing, and whether the connection is kept.
//!
//! An injector reads the same head again and again, because requests repeat and a date changes once
//! a second. So the last head is kept with its meaning ([`LastHead`]). A comparison of bytes
//! replaces the parsing, which took two fifths of a request's instructions. Leaves out the effect
//! of HEAD and of statuses without content on the framing (`response`). Tested in
//! `response/tests.rs`.

use std::mem::MaybeUninit;

use super::{AnswerSink, FinalHead, MalformedAnswer};

/// Maximum size of an answer's head: twice the limit of nginx and Apache for a back end's head.
pub(super) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of fields in an answer's head.
pub(super) const FIELDS_MAX: usize = 128;
/// Maximum size of a kept head. A guess: most heads are smaller, and the kept head stays in a
/// core's nearest cache.
const SEEN_BYTES_MAX: usize = 2048;

/// The framing of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerFraming {
    Length(u64),
    Chunks,
    UntilClose,
}

/// The meaning of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeadMeaning {
    pub(super) status: u16,
    pub(super) framing: AnswerFraming,
    pub(super) closes: bool,
}

/// The last parsed head and its meaning, shared by all connections of a core.
#[derive(Debug, Default)]
pub struct LastHead {
    bytes: Vec<u8>,
    meaning: Option<HeadMeaning>,
}

impl LastHead {
    /// The length and the meaning of the head at the start of `input`, if this is the kept head.
    #[inline]
    pub(super) fn find(&self, input: &[u8]) -> Option<(usize, HeadMeaning)> {
        let meaning = self.meaning?;
        // A complete head ends in an empty line, so no longer head begins with these bytes.
        input.starts_with(&self.bytes).then_some((self.bytes.len(), meaning))
    }

    /// Keeps a complete head.
    pub(super) fn keep(&mut self, head: &[u8], meaning: HeadMeaning) {
        if head.len() <= SEEN_BYTES_MAX {
            self.bytes.clear();
            self.bytes.extend_from_slice(head);
            self.meaning = Some(meaning);
        }
    }
}

/// Parses a head and returns its length; `None` for an incomplete head. `sink` gets no interim
/// heads.
pub(super) fn parse_head(
    input: &[u8],
    sink: &mut impl AnswerSink,
) -> Result<Option<(usize, HeadMeaning)>, MalformedAnswer> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        input,
        &mut fields,
    );
    let head_bytes = match parsed {
        Ok(httparse::Status::Complete(bytes)) if bytes > HEAD_BYTES_MAX => {
            return Err(MalformedAnswer::HeadTooLong);
        }
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) if input.len() > HEAD_BYTES_MAX => {
            return Err(MalformedAnswer::HeadTooLong);
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(MalformedAnswer::TooManyFields),
        Err(_) => return Err(MalformedAnswer::Head),
    };
    let status = response.code.ok_or(MalformedAnswer::Head)?;
    let is_old = response.version == Some(0);
    let said = HeadFields::by(response.headers)?;
    if status == 101 {
        return Err(MalformedAnswer::Upgrade);
    }
    if status >= 200 {
        sink.head(&FinalHead { status, fields: response.headers });
    }
    let framing = match said {
        HeadFields { chunked: Some(true), .. } => AnswerFraming::Chunks,
        HeadFields { chunked: Some(false), .. } => AnswerFraming::UntilClose,
        HeadFields { length: Some(length), .. } => AnswerFraming::Length(length),
        HeadFields { .. } => AnswerFraming::UntilClose,
    };
    let closes = said.close || (is_old && !said.keep_alive);
    Ok(Some((head_bytes, HeadMeaning { status, framing, closes })))
}

/// The fields about framing and the connection.
#[derive(Default)]
struct HeadFields {
    length: Option<u64>,
    /// Whether the last transfer coding is chunked; `None` without a transfer coding.
    chunked: Option<bool>,
    close: bool,
    keep_alive: bool,
}

impl HeadFields {
    fn by(fields: &[httparse::Header<'_>]) -> Result<Self, MalformedAnswer> {
        let mut said = Self::default();
        for field in fields {
            // The three names differ in length, so most fields cost only a comparison of numbers.
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

    fn content_length(&mut self, value: &[u8]) -> Result<(), MalformedAnswer> {
        for value in list(value) {
            let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
            let text = std::str::from_utf8(value).ok().filter(|_| digits);
            let length = text.and_then(|text| text.parse().ok()).ok_or(MalformedAnswer::Length)?;
            if self.length.replace(length).is_some_and(|before| before != length) {
                return Err(MalformedAnswer::Length);
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
