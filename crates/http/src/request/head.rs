//! The single pass over a head: empty lines, request line, field lines, empty line (RFC 9112 §2.1).
//!
//! The parser applies limits by cutting the buffer first: a head that does not end within the cut
//! is too long, whatever follows. So the verdict stays a function of a prefix, and the loops need
//! no limit checks.

use super::fields::Meaning;
use super::{EMPTY_LINES_MAX, Request, Stop, line};
use crate::limits::Limits;
use crate::rejection::Rejection;
use crate::scan;

/// Parses the head at the start of `buf`; the second value is the length of the head.
#[inline]
pub(super) fn parse<'a>(buf: &'a [u8], limits: &Limits) -> Result<(Request<'a>, usize), Stop> {
    let cut = &buf[..buf.len().min(limits.header_bytes)];
    match parse_cut(cut, limits) {
        Err(Stop::More) if buf.len() >= limits.header_bytes => Err(Rejection::HeadTooLong.into()),
        verdict => verdict,
    }
}

#[inline]
fn parse_cut<'a>(buf: &'a [u8], limits: &Limits) -> Result<(Request<'a>, usize), Stop> {
    let start = skip_empty_lines(buf)?;
    let line = request_line(&buf[start..], limits.request_line_bytes)?;
    let version = line.version;
    let fields_at = start + line.len;
    let mut at = fields_at;
    let mut meaning = Meaning::default();
    let mut count = 0;
    while let Some(field) = field_line(&buf[at..])? {
        count += 1;
        if count > limits.header_count {
            return Err(Rejection::TooManyFields.into());
        }
        meaning.take(version, field.name, field.value)?;
        at += field.len;
    }
    let outcome = meaning.finish(version)?;
    let fields = FieldLines { rest: &buf[fields_at..at] };
    meaning.join_lists(fields);
    let request = Request {
        method: line.method,
        target: line.target,
        version,
        host: line.authority.or(meaning.host),
        preconditions: meaning.preconditions,
        range: meaning.range,
        accept_encoding: meaning.accept_encoding,
        referer: meaning.referer,
        user_agent: meaning.user_agent,
        body: outcome.body,
        keep_alive: outcome.keep_alive,
        expect_continue: outcome.expect_continue,
        fields,
    };
    Ok((request, at + LINE_END.len()))
}

const LINE_END: &[u8; 2] = b"\r\n";

/// Where the request line starts.
#[inline]
fn skip_empty_lines(buf: &[u8]) -> Result<usize, Stop> {
    if buf.first().is_some_and(|&b| scan::is_token(b)) {
        return Ok(0);
    }
    let mut at = 0;
    loop {
        match &buf[at..] {
            [] | [b'\r'] => return Err(Stop::More),
            [b'\r', b'\n', ..] if at == EMPTY_LINES_MAX * LINE_END.len() => {
                return Err(Rejection::TooManyEmptyLines.into());
            }
            [b'\r', b'\n', ..] => at += LINE_END.len(),
            [b'\r', ..] => return Err(Rejection::BareCr.into()),
            [b'\n', ..] => return Err(Rejection::BareLf.into()),
            _ => return Ok(at),
        }
    }
}

#[inline]
fn request_line(buf: &[u8], line_bytes_max: usize) -> Result<line::RequestLine<'_>, Stop> {
    let cut_len = line_bytes_max.saturating_add(LINE_END.len());
    match line::parse(&buf[..buf.len().min(cut_len)]) {
        Err(Stop::More) if buf.len() >= cut_len => Err(Rejection::RequestLineTooLong.into()),
        verdict => verdict,
    }
}

struct FieldLine<'a> {
    name: &'a [u8],
    value: &'a [u8],
    /// Bytes with the line end.
    len: usize,
}

/// The field line at the start of `buf`; `None` at the empty line that ends the head.
#[inline]
fn field_line(buf: &[u8]) -> Result<Option<FieldLine<'_>>, Stop> {
    let name_len = scan::token_len(buf);
    match buf.get(name_len) {
        Some(b':') if name_len > 0 => {}
        _ => return no_field(buf, name_len),
    }
    let value_at = name_len + 1;
    let value_end = value_at + scan::text_len(&buf[value_at..]);
    match &buf[value_end..] {
        [b'\r', b'\n', ..] => {}
        rest => return Err(value_stop(rest)),
    }
    let value = scan::trim(&buf[value_at..value_end]);
    Ok(Some(FieldLine { name: &buf[..name_len], value, len: value_end + LINE_END.len() }))
}

/// Classifies the start of `buf` when no field name ends in a colon there.
fn no_field(buf: &[u8], name_len: usize) -> Result<Option<FieldLine<'_>>, Stop> {
    match buf {
        [b'\r', b'\n', ..] => Ok(None),
        [b'\r'] => Err(Stop::More),
        [b'\r', ..] => Err(Rejection::BareCr.into()),
        [b'\n', ..] => Err(Rejection::BareLf.into()),
        [b' ' | b'\t', ..] => Err(Rejection::LineFolding.into()),
        _ if name_len == buf.len() => Err(Stop::More),
        _ => Err(Rejection::FieldName.into()),
    }
}

/// Why a field value does not end in CRLF; `rest` starts with the first byte that no value has.
#[cold]
fn value_stop(rest: &[u8]) -> Stop {
    match rest {
        [] | [b'\r'] => Stop::More,
        [b'\r', ..] => Rejection::BareCr.into(),
        [b'\n', ..] => Rejection::BareLf.into(),
        _ => Rejection::FieldValue.into(),
    }
}

/// The field lines of a valid head, in order: an iterator of name and value, both as received,
/// without white space around values. The iterator reads the bytes again; the fields needed for the
/// answer are already in [`Request`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FieldLines<'a> {
    rest: &'a [u8],
}

impl<'a> FieldLines<'a> {
    /// The field lines of `received`, which is an incomplete or refused head: the lines after the
    /// first line, up to the first line that is no field line.
    pub fn of_refused(received: &'a [u8]) -> Self {
        let start = received.iter().position(|byte| !b"\r\n".contains(byte)).unwrap_or(received.len());
        let lines = &received[start..];
        let line_end = lines.iter().position(|&byte| byte == b'\n').map_or(lines.len(), |at| at + 1);
        Self { rest: &lines[line_end..] }
    }
}

impl<'a> Iterator for FieldLines<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let field = field_line(self.rest).ok().flatten()?;
        self.rest = &self.rest[field.len..];
        Some((field.name, field.value))
    }
}

impl std::fmt::Debug for FieldLines<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map()
            .entries(
                self.map(|(name, value)| (name.escape_ascii().to_string(), value.escape_ascii().to_string())),
            )
            .finish()
    }
}
