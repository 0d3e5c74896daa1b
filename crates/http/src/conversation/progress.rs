//! The position in a head at which the received bytes end, so that more bytes of the same part need
//! no new pass over the head.
//!
//! [`HeadPart::after`] knows only which bytes leave the verdict open. The parser judges every byte
//! that could decide, the last byte of a line included. So a refusal comes with the byte that
//! causes the refusal, however the head was cut. `tests/corpus/` checks this on every cut of the
//! corpus.

use crate::request::METHOD_BYTES_MAX;
use crate::scan;

/// The part of a head in which the received bytes end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadPart {
    /// In the method, of which so many bytes are known.
    Method(usize),
    Target,
    /// Behind the line end before a field line.
    LineStart,
    FieldName,
    FieldValue,
    /// Anywhere else: the parser judges each byte.
    Elsewhere,
}

impl HeadPart {
    /// Where `head` ends, a valid prefix of a head.
    pub(super) fn of(head: &[u8]) -> Self {
        let line_at = head.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let is_request_line = head[..line_at].iter().all(|byte| b"\r\n".contains(byte));
        let start = if is_request_line { Self::Method(0) } else { Self::LineStart };
        start.after(&head[line_at..])
    }

    /// Where a head ends that ended here, after `bytes` more.
    pub(super) fn after(self, bytes: &[u8]) -> Self {
        let mut place = self;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (len, next) = match place {
                Self::Method(known) => {
                    let len = scan::token_len(rest);
                    let is_method = known + len > 0 && known + len <= METHOD_BYTES_MAX;
                    match rest.get(len) {
                        None if is_method => return Self::Method(known + len),
                        Some(b' ') if is_method => (len + 1, Self::Target),
                        _ => return Self::Elsewhere,
                    }
                }
                // The version behind the target has few bytes.
                Self::Target => match scan::target_len(rest) == rest.len() {
                    true => return Self::Target,
                    false => return Self::Elsewhere,
                },
                Self::LineStart if scan::is_token(rest[0]) => (1, Self::FieldName),
                Self::FieldName => {
                    let len = scan::token_len(rest);
                    match rest.get(len) {
                        None => return Self::FieldName,
                        Some(b':') => (len + 1, Self::FieldValue),
                        Some(_) => return Self::Elsewhere,
                    }
                }
                Self::FieldValue => match scan::text_len(rest) == rest.len() {
                    true => return Self::FieldValue,
                    false => return Self::Elsewhere,
                },
                Self::LineStart | Self::Elsewhere => return Self::Elsewhere,
            };
            place = next;
            rest = &rest[len..];
        }
        place
    }

    /// Whether the bytes end in the request line, whose length has its own limit.
    pub(super) fn is_in_request_line(self) -> bool {
        matches!(self, Self::Method(_) | Self::Target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_is_the_same_however_the_head_is_cut() {
        let head = b"\r\nGET /a HTTP/1.1\r\nHost: h\r\nX-Name: v\tw\r\n";
        for len in 0..=head.len() {
            for cut in 0..=len {
                let place = HeadPart::of(&head[..cut]);
                let later = place.after(&head[cut..len]);
                assert!(
                    later == HeadPart::of(&head[..len]) || later == HeadPart::Elsewhere,
                    "{cut} of {len}: {place:?}, then {later:?}"
                );
            }
        }
        for (prefix, place) in [
            ("", HeadPart::Method(0)),
            ("G", HeadPart::Method(1)),
            ("\r\nGE", HeadPart::Method(2)),
            ("GET ", HeadPart::Target),
            ("GET /x", HeadPart::Target),
            ("GET /x ", HeadPart::Elsewhere),
            ("GET /x HTTP/1.1\r\n", HeadPart::LineStart),
            ("GET /x HTTP/1.1\r\nA", HeadPart::FieldName),
            ("GET /x HTTP/1.1\r\nA:", HeadPart::FieldValue),
            ("GET /x HTTP/1.1\r\nA: b\r", HeadPart::Elsewhere),
        ] {
            assert_eq!(HeadPart::of(prefix.as_bytes()), place, "{prefix:?}");
        }
    }

    #[test]
    fn too_long_method_is_left_to_the_parser() {
        let long = [b'G'; METHOD_BYTES_MAX + 1];
        assert_eq!(HeadPart::of(&long[1..]), HeadPart::Method(METHOD_BYTES_MAX));
        assert_eq!(HeadPart::of(&long), HeadPart::Elsewhere);
    }
}
