//! From the path of a target to the path below a root: decoded, without dot segments, without empty
//! segments.
//!
//! [`decode`] decodes first and removes dot segments afterwards, so no encoding of `..` survives. A
//! path that climbs above the root stays at the root (RFC 3986 §5.2.4). A path that needs no change
//! is not copied. Symbolic links and permissions belong to the file system; this module is about
//! names only. The properties (no `..` in any result, decoding inverts encoding) are tested in
//! `path/tests.rs`.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode, percent_encode_byte};

use crate::status::Status;

#[cfg(test)]
mod tests;

/// Longest decoded path in bytes: `PATH_MAX` of Linux, because no longer path can be opened.
pub const PATH_BYTES_MAX: usize = 4096;

/// A path below a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodedPath<'a> {
    /// Starts with `/`; no segment is empty, `.` or `..`, and no segment holds NUL. All other bytes
    /// may occur, including invalid UTF-8.
    pub bytes: &'a [u8],
    /// Whether the path ends in `/` and so names a folder.
    pub is_dir: bool,
    /// Whether a segment starts with a dot, `.well-known` at the top (RFC 8615) not counted.
    pub has_dotfile: bool,
}

/// Why a path names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathError {
    /// The path does not start with `/`.
    NotAbsolute,
    /// A `%` without two hexadecimal digits.
    BadEscape,
    /// A NUL, encoded or not.
    Nul,
    /// An encoded slash. No file name has a slash, so no file can have this path. If the slash were
    /// a separator, a file would have two names of different depth.
    EncodedSlash,
    /// More than [`PATH_BYTES_MAX`] bytes.
    TooLong,
}

impl PathError {
    /// The status code of the answer.
    pub fn status(self) -> Status {
        match self {
            Self::NotAbsolute | Self::BadEscape | Self::Nul => Status::BadRequest,
            Self::EncodedSlash => Status::NotFound,
            Self::TooLong => Status::UriTooLong,
        }
    }
}

impl std::fmt::Display for PathError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotAbsolute => "decoding a path: it must start with a slash",
            Self::BadEscape => "decoding a path: a percent sign must be followed by two hexadecimal digits",
            Self::Nul => "decoding a path: a name cannot hold the byte NUL",
            Self::EncodedSlash => "decoding a path: a name cannot hold a slash",
            Self::TooLong => "decoding a path: it must not be longer than 4096 bytes",
        })
    }
}

impl std::error::Error for PathError {}

/// Decodes `raw`, the path of a target. Writes the result to `out` if `raw` needs decoding;
/// otherwise the result is `raw`, and `out` is unchanged.
///
/// # Errors
///
/// The first error in `raw`.
#[inline]
pub fn decode<'a>(raw: &'a [u8], out: &'a mut Vec<u8>) -> Result<DecodedPath<'a>, PathError> {
    if is_plain(raw) {
        return checked(DecodedPath { bytes: raw, is_dir: raw.ends_with(b"/"), has_dotfile: false });
    }
    decode_into(raw, out)?;
    checked(DecodedPath { bytes: out, is_dir: out.ends_with(b"/"), has_dotfile: has_dotfile(out) })
}

/// A decoded path of which a part may be for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramPath<'a> {
    /// As [`DecodedPath::bytes`]; an encoded slash has become a separator.
    pub bytes: &'a [u8],
    /// The bytes before the first encoded slash, including encoded slashes that dot segments
    /// removed.
    encoded_slash: Option<usize>,
}

impl ProgramPath<'_> {
    /// How many bytes may name a program and its folders. No file name has a slash, so an encoded
    /// slash can only be in the part after the program.
    pub fn names_max(&self) -> usize {
        self.encoded_slash.map_or(self.bytes.len(), |at| at.saturating_sub(1))
    }

    /// Whether a slash was encoded, so that the whole can name no file.
    pub fn has_encoded_slash(&self) -> bool {
        self.encoded_slash.is_some()
    }
}

/// As [`decode`], for a path that may name a program. The rest after the program may hold encoded
/// slashes. There these are separators, because programs cannot distinguish them from other
/// slashes.
///
/// # Errors
///
/// The first error in `raw`, never [`PathError::EncodedSlash`].
pub fn decode_for_program<'a>(raw: &'a [u8], out: &'a mut Vec<u8>) -> Result<ProgramPath<'a>, PathError> {
    let mut encoded_slash = None;
    let bytes = match is_plain(raw) {
        true => raw,
        false => {
            decode_with(raw, out, EncodedSlashes::Separate(&mut encoded_slash))?;
            &*out
        }
    };
    if bytes.len() > PATH_BYTES_MAX {
        Err(PathError::TooLong)
    } else {
        Ok(ProgramPath { bytes, encoded_slash })
    }
}

/// Whether `raw`, the path of a target, names a folder: the decoded path ends in a slash. `raw` may
/// end in a dot segment instead.
pub fn names_folder(raw: &[u8]) -> bool {
    decode_for_program(raw, &mut Vec::new()).is_ok_and(|path| path.bytes.ends_with(b"/"))
}

/// A part of a target with all non-ASCII bytes escaped, as from a client that escapes.
pub fn escaped(raw: &[u8]) -> Cow<'_, [u8]> {
    if raw.is_ascii() {
        return Cow::Borrowed(raw);
    }
    let mut escaped = Vec::with_capacity(raw.len() + 32);
    for &byte in raw {
        if byte.is_ascii() {
            escaped.push(byte);
        } else {
            escaped.extend_from_slice(percent_encode_byte(byte).as_bytes());
        }
    }
    Cow::Owned(escaped)
}

fn checked(path: DecodedPath<'_>) -> Result<DecodedPath<'_>, PathError> {
    if path.bytes.len() > PATH_BYTES_MAX { Err(PathError::TooLong) } else { Ok(path) }
}

/// Whether `raw` needs no decoding and has no segment that starts with a dot.
#[inline]
fn is_plain(raw: &[u8]) -> bool {
    let [b'/', rest @ ..] = raw else { return false };
    // Two loops without an early exit, which become vector instructions, are faster than a loop
    // with an early exit.
    let escaped = rest.iter().fold(false, |found, &b| found | (b == b'%') | (b == 0));
    let pairs = raw.iter().zip(rest);
    let dotted = pairs.fold(false, |found, (&a, &b)| found | ((a == b'/') & ((b == b'/') | (b == b'.'))));
    !escaped && !dotted
}

fn decode_into(raw: &[u8], out: &mut Vec<u8>) -> Result<(), PathError> {
    decode_with(raw, out, EncodedSlashes::Refused)
}

/// The treatment of encoded slashes.
enum EncodedSlashes<'a> {
    Refused,
    /// Encoded slashes end segments. The value counts the bytes of the path before the first
    /// encoded slash. When dot segments remove bytes before that point, the count shrinks and does
    /// not grow again.
    Separate(&'a mut Option<usize>),
}

fn decode_with(raw: &[u8], out: &mut Vec<u8>, mut slashes: EncodedSlashes<'_>) -> Result<(), PathError> {
    let Some(mut rest) = raw.strip_prefix(b"/") else { return Err(PathError::NotAbsolute) };
    out.clear();
    out.push(b'/');
    let mut segment_at = out.len();
    while let [byte, after @ ..] = rest {
        rest = after;
        match byte {
            b'/' => {
                segment_at = end_segment(out, segment_at, SegmentEnd::Slash);
                if let EncodedSlashes::Separate(Some(at)) = &mut slashes {
                    *at = (*at).min(out.len());
                }
            }
            0 => return Err(PathError::Nul),
            b'%' => {
                match escaped_byte(rest)? {
                    b'/' => {
                        let EncodedSlashes::Separate(first) = &mut slashes else {
                            return Err(PathError::EncodedSlash);
                        };
                        let at = first.unwrap_or(out.len());
                        segment_at = end_segment(out, segment_at, SegmentEnd::Slash);
                        **first = Some(at.min(out.len()));
                    }
                    byte => out.push(byte),
                }
                rest = &rest[2..];
            }
            &byte => out.push(byte),
        }
    }
    end_segment(out, segment_at, SegmentEnd::Path);
    if let EncodedSlashes::Separate(Some(at)) = slashes {
        *at = (*at).min(out.len());
    }
    Ok(())
}

/// The byte that two hexadecimal digits at the start of `rest` mean.
fn escaped_byte(rest: &[u8]) -> Result<u8, PathError> {
    let digit = |i: usize| rest.get(i).and_then(|&b| char::from(b).to_digit(16)).ok_or(PathError::BadEscape);
    match (digit(0)? << 4 | digit(1)?) as u8 {
        0 => Err(PathError::Nul),
        byte => Ok(byte),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SegmentEnd {
    Slash,
    Path,
}

/// Applies the segment that starts at `at` to the path before the segment, and returns the start of
/// the next segment. `out` ends in a slash before each segment.
fn end_segment(out: &mut Vec<u8>, at: usize, end: SegmentEnd) -> usize {
    match &out[at..] {
        b"" | b"." => out.truncate(at),
        b".." => {
            let parent = out[..at - 1].iter().rposition(|&b| b == b'/');
            out.truncate(parent.map_or(at, |slash| slash + 1));
        }
        _ if end == SegmentEnd::Slash => out.push(b'/'),
        _ => {}
    }
    out.len()
}

fn has_dotfile(path: &[u8]) -> bool {
    const TOP: &[u8] = b".well-known";
    let mut segments = path[1..].split(|&b| b == b'/');
    let first = segments.next().unwrap_or_default();
    (first.starts_with(b".") && first != TOP) || segments.any(|segment| segment.starts_with(b"."))
}

/// Bytes that stay unencoded in a path: the unreserved characters, the slash, and further bytes
/// without a special meaning. A colon is encoded, because otherwise a relative reference could read
/// the name of a file as a scheme.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Appends `path` in a form for a `Location` field or a link. A path from [`decode`] never starts
/// with two slashes, so the result is never a reference to another host.
pub fn percent_encode_path(path: &[u8], out: &mut Vec<u8>) {
    for piece in percent_encode(path, ENCODED) {
        out.extend_from_slice(piece.as_bytes());
    }
}
