//! The field lines of a head, one at a time (RFC 9112 §5).
//!
//! Leaves out the meaning of fields (`request/fields.rs`). Tested with the whole head
//! (`request/tests.rs`, `tests/corpus/`).

use crate::rejection::{ParseStop, Rejection};
use crate::scan;

pub(crate) const LINE_END: &[u8; 2] = b"\r\n";

/// A field line: the name and the value, without white space around the value.
pub(crate) struct FieldLine<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
    /// Bytes with the line end.
    pub(crate) len: usize,
}

/// The field line at the start of `buf`; `None` at the empty line that ends the head.
#[inline]
pub(crate) fn field_line(buf: &[u8]) -> Result<Option<FieldLine<'_>>, ParseStop> {
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
fn no_field(buf: &[u8], name_len: usize) -> Result<Option<FieldLine<'_>>, ParseStop> {
    match buf {
        [b'\r', b'\n', ..] => Ok(None),
        [b'\r'] => Err(ParseStop::More),
        [b'\r', ..] => Err(Rejection::BareCr.into()),
        [b'\n', ..] => Err(Rejection::BareLf.into()),
        [b' ' | b'\t', ..] => Err(Rejection::LineFolding.into()),
        _ if name_len == buf.len() => Err(ParseStop::More),
        _ => Err(Rejection::FieldName.into()),
    }
}

/// Why a field value does not end in CRLF; `rest` starts with the first byte that no value has.
#[cold]
fn value_stop(rest: &[u8]) -> ParseStop {
    match rest {
        [] | [b'\r'] => ParseStop::More,
        [b'\r', ..] => Rejection::BareCr.into(),
        [b'\n', ..] => Rejection::BareLf.into(),
        _ => Rejection::FieldValue.into(),
    }
}

/// The field lines of a valid head, in order: an iterator of name and value, both as received,
/// without white space around values. The iterator reads the bytes again; the fields needed for the
/// answer are already in [`Request`](crate::Request).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FieldLines<'a> {
    rest: &'a [u8],
}

impl<'a> FieldLines<'a> {
    /// The field lines of a parsed head.
    #[inline]
    pub(crate) fn of_parsed(lines: &'a [u8]) -> Self {
        Self { rest: lines }
    }

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
