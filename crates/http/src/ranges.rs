//! Parts of a representation: the ranges of `Range`, and the fields and parts of the answer (RFC
//! 9110 §14).
//!
//! [`parse`] decides between the whole, one part, several parts and 416. It allocates only for
//! several parts. Requests whose answer would cost more than the request are refused. Too many
//! ranges, or more bytes than the representation has, give the whole; ranges that overlap or touch
//! are joined. `ranges/multipart.rs` writes several parts. `ranges/tests.rs` compares the result
//! with a set of byte positions.

use crate::scan;

mod multipart;
#[cfg(test)]
mod tests;

pub use multipart::{Boundary, Multipart};

/// One part: bytes `start..end` of the representation, never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl ByteRange {
    /// Bytes in the part, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a range is never empty")]
    pub fn len(self) -> u64 {
        self.end - self.start
    }

    fn touches(self, other: Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    fn joined(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// The part of the representation to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// 200: everything. The field is malformed, of another unit, or not worth obeying.
    Whole,
    /// 206 with `Content-Range`.
    Single(ByteRange),
    /// 206 as `multipart/byteranges`: at least two disjoint ranges in the order asked for.
    Several(Vec<ByteRange>),
    /// 416: no range lies within the representation.
    Unsatisfiable,
}

/// Reads the value of `Range` for a representation of `size` bytes; of more than `ranges_max`
/// ranges nothing is obeyed. An empty representation is always sent whole: a client that adds
/// `Range` to everything should not see an error. The field has a meaning with `GET` only.
pub fn parse(header: &[u8], size: u64, ranges_max: usize) -> Ranges {
    let Some(specs) = strip_unit(header) else { return Ranges::Whole };
    if size == 0 {
        return Ranges::Whole;
    }
    let mut found = FoundRange::None;
    let mut count = 0;
    let mut bytes: u64 = 0;
    for spec in scan::list(specs).filter(|spec| !spec.is_empty()) {
        count += 1;
        if count > ranges_max {
            return Ranges::Whole;
        }
        let Some(range) = resolve(spec, size) else { return Ranges::Whole };
        let Some(range) = range else { continue };
        bytes = bytes.saturating_add(range.len());
        if bytes > size {
            return Ranges::Whole;
        }
        found.add(range);
    }
    match found {
        _ if count == 0 => Ranges::Whole,
        FoundRange::None => Ranges::Unsatisfiable,
        FoundRange::One(range) => Ranges::Single(range),
        FoundRange::Several(ranges) => join(ranges),
    }
}

enum FoundRange {
    None,
    One(ByteRange),
    Several(Vec<ByteRange>),
}

impl FoundRange {
    fn add(&mut self, range: ByteRange) {
        match self {
            Self::None => *self = Self::One(range),
            Self::One(first) => *self = Self::Several(vec![*first, range]),
            Self::Several(ranges) => ranges.push(range),
        }
    }
}

/// The text after `bytes=`; unit names do not depend on case.
fn strip_unit(header: &[u8]) -> Option<&[u8]> {
    let (unit, specs) = header.split_at_checked(b"bytes=".len())?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(specs)
}

/// The byte range of one element: `None` if the element is malformed, `Some(None)` if the range
/// lies outside.
fn resolve(spec: &[u8], size: u64) -> Option<Option<ByteRange>> {
    let dash = spec.iter().position(|&b| b == b'-')?;
    let (first, last) = (&spec[..dash], &spec[dash + 1..]);
    if first.is_empty() {
        let suffix = scan::decimal_saturating(last)?;
        return Some((suffix > 0).then(|| ByteRange { start: size.saturating_sub(suffix), end: size }));
    }
    let start = scan::decimal_saturating(first)?;
    let last = if last.is_empty() { u64::MAX } else { scan::decimal_saturating(last)? };
    if last < start {
        return None;
    }
    Some((start < size).then(|| ByteRange { start, end: last.saturating_add(1).min(size) }))
}

/// Joins ranges that overlap or touch; a joined range takes the place of its first part.
fn join(ranges: Vec<ByteRange>) -> Ranges {
    let mut joined: Vec<ByteRange> = Vec::with_capacity(ranges.len());
    for mut range in ranges {
        let mut place = joined.len();
        while let Some(at) = joined.iter().position(|other| other.touches(range)) {
            range = range.joined(joined.remove(at));
            place = place.min(at);
        }
        joined.insert(place, range);
    }
    match joined[..] {
        [only] => Ranges::Single(only),
        _ => Ranges::Several(joined),
    }
}

/// Appends the value of `Content-Range` for one part of a representation of `size` bytes.
pub fn write_content_range(out: &mut Vec<u8>, range: ByteRange, size: u64) {
    let mut digits = itoa::Buffer::new();
    out.extend_from_slice(b"bytes ");
    out.extend_from_slice(digits.format(range.start).as_bytes());
    out.push(b'-');
    out.extend_from_slice(digits.format(range.end - 1).as_bytes());
    out.push(b'/');
    out.extend_from_slice(digits.format(size).as_bytes());
}

/// Appends the value of `Content-Range` for an answer 416.
pub fn write_unsatisfied_range(out: &mut Vec<u8>, size: u64) {
    out.extend_from_slice(b"bytes */");
    out.extend_from_slice(itoa::Buffer::new().format(size).as_bytes());
}
