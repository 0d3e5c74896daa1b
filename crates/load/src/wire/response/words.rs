//! Short descriptions of violations for a report: the wrong line with escaped bytes.
//!
//! Made only after a violation, so a second look at the bytes is affordable. Tested here, and with
//! a planted server in `tests/planted`.

use super::MalformedAnswer;

/// Maximum number of shown bytes of a line. The longest status lines of registered codes (431 and
/// 511) have 44.
const SHOWN_BYTES_MAX: usize = 60;

/// The first line of `bytes`, escaped and in quotes, shortened if long.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let line = lines(bytes).next().unwrap_or_default();
    let shown = &line[..line.len().min(SHOWN_BYTES_MAX)];
    let more = if shown.len() < line.len() { "…" } else { "" };
    format!("\"{}{more}\"", shown.escape_ascii())
}

/// Lines without line ends.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

impl MalformedAnswer {
    /// The description of the violation. `bytes` begin with the head, chunk or other wrong part.
    pub(crate) fn words(self, bytes: &[u8]) -> String {
        match self {
            Self::Head => wrong_line(bytes),
            Self::Length => lengths(bytes),
            Self::Chunks => format!("chunk {}", quoted(after_line_ends(bytes))),
            Self::Upgrade => format!("unexpected status line {}", quoted(bytes)),
            Self::Unasked => format!("unexpected {} behind the answer", quoted(bytes)),
            Self::HeadTooLong | Self::TooManyFields | Self::Truncated => self.to_string(),
        }
    }
}

/// The line of a head that is not HTTP/1: the first line that httparse rejects alone.
fn wrong_line(head: &[u8]) -> String {
    if let [0x15 | 0x16, 3, ..] = head {
        return format!("status line {}, which is TLS: is it https://?", quoted(head));
    }
    let mut lines = lines(after_line_ends(head));
    let first = lines.next().unwrap_or_default();
    if !is_head(&[first, b"\r\n\r\n"].concat()) {
        return format!("status line {}", quoted(first));
    }
    let wrong = lines
        .take_while(|line| !line.is_empty())
        .find(|line| !is_head(&[b"HTTP/1.1 200 OK\r\n", *line, b"\r\n\r\n"].concat()));
    wrong.map_or_else(|| format!("head {}", quoted(first)), |line| format!("field {}", quoted(line)))
}

fn after_line_ends(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|byte| !b"\r\n".contains(byte));
    &bytes[start.unwrap_or(bytes.len())..]
}

fn is_head(bytes: &[u8]) -> bool {
    let mut fields = [httparse::EMPTY_HEADER; 1];
    httparse::Response::new(&mut fields).parse(bytes).is_ok()
}

fn lengths(head: &[u8]) -> String {
    const NAME: &[u8] = b"content-length:";
    let is_length = |line: &&[u8]| line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME));
    let all: Vec<_> = lines(head).take_while(|line| !line.is_empty()).filter(is_length).map(quoted).collect();
    format!("field {}", all.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{AnswerReader, Discard, LastHead};

    /// The description of the first violation in `bytes`.
    fn said(bytes: &[u8]) -> String {
        let (mut reader, mut seen, mut rest) = (AnswerReader::default(), LastHead::default(), bytes);
        loop {
            match reader.read(rest, false, &mut Discard, &mut seen) {
                Ok(read) => rest = &rest[read.consumed..],
                Err(malformed) => return malformed.words(&rest[reader.stopped_at()..]),
            }
        }
    }

    #[test]
    fn the_wrong_line_is_shown() {
        let long = [&b"HTTP/1.1 200 OK\r\nX y: "[..], &[b'z'; 99], b"\r\n\r\n"].concat();
        let cases: [(&[u8], &str); 10] = [
            (b"HTP/1.1 200\r\n\r\n", "status line \"HTP/1.1 200\""),
            (b"\x15\x03\x01\0\x02\x02F", "status line \"\\x15\\x03\\x01\\x00\\x02\\x02F\", which is TLS"),
            (b"HTTP/1.1 200 OK\r\nA: b\r\nC\0: d\r\n\r\n", "field \"C\\x00: d\""),
            (&long, "field \"X y: zzzz"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n", "field \"Content-Length: 1x\""),
            (
                b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\nA: b\r\nContent-Length: 2\r\n\r\n",
                "field \"content-length: 1\" and \"Content-Length: 2\"",
            ),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\nzz\r\n", "chunk \"zz\""),
            (b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 2OO OK\r\n\r\n", "status line \"HTTP/1.1 2OO OK\""),
            (b"HTTP/1.1 101 Other\r\n\r\n", "unexpected status line \"HTTP/1.1 101 Other\""),
            (b"\r\nnothing\r\n\r\n", "status line \"nothing\""),
        ];
        for (bytes, expected) in cases {
            let said = said(bytes);
            assert!(said.starts_with(expected), "{said} for {}", bytes.escape_ascii());
            assert!(said.len() < 4 * SHOWN_BYTES_MAX + 100, "{said}");
        }
        assert!(said(&long).ends_with("z…\""));
        assert!(
            MalformedAnswer::Unasked
                .words(b"HTTP/1.1 200 X\r\n\r\nmore")
                .starts_with("unexpected \"HTTP/1.1 200 X\" behind")
        );
        assert_eq!(MalformedAnswer::Head.words(b""), "head \"\"");
    }
}
