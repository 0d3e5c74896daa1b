//! The single pass over a head: empty lines, request line, field lines, empty line (RFC 9112 §2.1).
//!
//! The parser applies limits by cutting the buffer first: a head that does not end within the cut
//! is too long, whatever follows. So the verdict stays a function of a prefix, and the loops need
//! no limit checks.

use super::fields::CombinedFields;
use super::{EMPTY_LINES_MAX, Request, line};
use crate::field_lines::{FieldLines, LINE_END, field_line};
use crate::limits::ConnectionLimits;
use crate::rejection::{ParseStop, Rejection};
use crate::scan;

/// Parses the head at the start of `buf`; the second value is the length of the head.
#[inline]
pub(super) fn parse<'a>(buf: &'a [u8], limits: &ConnectionLimits) -> Result<(Request<'a>, usize), ParseStop> {
    let cut = &buf[..buf.len().min(limits.header_bytes)];
    match parse_cut(cut, limits) {
        Err(ParseStop::More) if buf.len() >= limits.header_bytes => Err(Rejection::HeadTooLong.into()),
        verdict => verdict,
    }
}

#[inline]
fn parse_cut<'a>(buf: &'a [u8], limits: &ConnectionLimits) -> Result<(Request<'a>, usize), ParseStop> {
    let start = skip_empty_lines(buf)?;
    let line = request_line(&buf[start..], limits.request_line_bytes)?;
    let version = line.version;
    let fields_at = start + line.len;
    let mut at = fields_at;
    let mut meaning = CombinedFields::default();
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
    let fields = FieldLines::of_parsed(&buf[fields_at..at]);
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

/// Where the request line starts.
#[inline]
fn skip_empty_lines(buf: &[u8]) -> Result<usize, ParseStop> {
    if buf.first().is_some_and(|&b| scan::is_token(b)) {
        return Ok(0);
    }
    let mut at = 0;
    loop {
        match &buf[at..] {
            [] | [b'\r'] => return Err(ParseStop::More),
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
fn request_line(buf: &[u8], line_bytes_max: usize) -> Result<line::RequestLine<'_>, ParseStop> {
    let cut_len = line_bytes_max.saturating_add(LINE_END.len());
    match line::parse(&buf[..buf.len().min(cut_len)]) {
        Err(ParseStop::More) if buf.len() >= cut_len => Err(Rejection::RequestLineTooLong.into()),
        verdict => verdict,
    }
}
