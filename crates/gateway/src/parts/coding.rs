//! Compressed answers of programs: which answers get a coding, and the head of such an answer.
//!
//! Each part of the output is coded and flushed, so a client gets the part without the next one. An
//! answer that has ended before its first byte is sent is coded whole and has a length. Leaves out
//! the encoders (`compress/`). Tested below, and through the binary
//! (`crates/e2e/tests/e2e/compression.rs`).

use bytes::Bytes;
use std::{io, sync::Arc};
use vermeil_exchange::AnswerHead;
use vermeil_files::forbids_transformation;
use vermeil_http::{
    Request,
    gateway::{ResponseHead, field_lines},
    negotiate::{self, Choice},
};
use vermeil_routing::hosts::{CompressionRules, CoreHosts};
use vermeil_work::compress::{AnswerCoder, CoderPlan, PieceEnd};

/// The compression that the rules of a host and the request allow for an answer of a program.
#[derive(Clone)]
pub(crate) struct AllowedCoding {
    rules: Arc<CompressionRules>,
    /// The client's choice.
    coding: Choice,
}

/// How an answer of a program is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerCoding {
    /// The rules leave the answer alone.
    None,
    /// The answer goes as it is, and another client may get it compressed.
    Identity,
    Coded(CoderPlan),
}

impl AllowedCoding {
    /// The compression for the answer to `request`; `None` if the host compresses nothing.
    pub(crate) fn of(hosts: &CoreHosts, request: &Request<'_>, head: AnswerHead) -> Option<Self> {
        let rules = head.rules.filter(|rules| rules.may_compress())?;
        let rules = hosts.with_rules(rules, |rules| rules.compression.clone())?;
        let coding = negotiate::choose_in_order(request.accept_encoding, &rules.codings);
        Some(Self { rules, coding })
    }

    /// Whether the client takes a coding that the rules have.
    pub(super) fn has_coding(&self) -> bool {
        self.coding != Choice::Identity
    }

    /// The coding of an answer with `head`.
    pub(super) fn of_answer(&self, head: &ResponseHead) -> AnswerCoding {
        if head.status == 304 {
            // The representation that the client has may vary.
            return AnswerCoding::Identity;
        }
        if !head.has_content() || head.status == 206 || !self.includes(head) {
            return AnswerCoding::None;
        }
        let is_long = head.content_length.is_none_or(|bytes| bytes >= self.rules.bytes_min);
        match self.coding {
            Choice::Identity => AnswerCoding::Identity,
            coding if is_long => {
                let level = self.rules.levels.of(coding);
                AnswerCoding::Coded(CoderPlan { coding, level, bytes: head.content_length })
            }
            _ => AnswerCoding::Identity,
        }
    }

    /// Whether the fields of an answer allow compression.
    fn includes(&self, head: &ResponseHead) -> bool {
        let mut includes = false;
        for line in field_lines(&head.lines) {
            let (name, value) = field(line);
            if name.eq_ignore_ascii_case(b"content-type") {
                includes = std::str::from_utf8(value).is_ok_and(|value| self.rules.include(value));
            } else if FORBIDDING.into_iter().any(|known| name.eq_ignore_ascii_case(known))
                || name.eq_ignore_ascii_case(b"cache-control") && forbids_transformation(value)
            {
                return false;
            }
        }
        includes
    }
}

/// Fields of content that must not change: the content has a coding or is a part, or a client
/// checks the content as the program wrote it.
const FORBIDDING: [&[u8]; 6] =
    [b"content-encoding", b"content-range", b"content-md5", b"content-digest", b"digest", b"repr-digest"];

/// Name and value of a line.
fn field(line: &[u8]) -> (&[u8], &[u8]) {
    let colon = memchr::memchr(b':', line).unwrap_or(line.len());
    (&line[..colon], line.get(colon + 1..).unwrap_or_default().trim_ascii())
}

/// Whether `value` contains the lower-case `text`, in any case of letters.
fn contains(value: &[u8], text: &[u8]) -> bool {
    value.windows(text.len()).any(|part| part.eq_ignore_ascii_case(text))
}

/// Says in `head` that the answer depends on the codings that the client accepts.
pub(super) fn say_varying(head: &mut ResponseHead) {
    let says = |line: &[u8]| {
        let (name, value) = field(line);
        name.eq_ignore_ascii_case(b"vary") && (value == b"*" || contains(value, b"accept-encoding"))
    };
    if !field_lines(&head.lines).any(says) {
        head.lines.extend_from_slice(b"Vary: Accept-Encoding\r\n");
    }
}

/// Makes the tag of a 304 weak, as [`say_coded`] made the tag of the answer that the client has.
pub(super) fn weaken_tag(head: &mut ResponseHead) {
    let mut made = Vec::with_capacity(head.lines.len() + 2);
    field_lines(&head.lines).for_each(|line| push_weakened(line, &mut made));
    head.lines = made;
}

/// Appends a line, with a weak tag if the line is a strong tag.
fn push_weakened(line: &[u8], made: &mut Vec<u8>) {
    match field(line) {
        (name, value) if name.eq_ignore_ascii_case(b"etag") && !value.starts_with(b"W/") => {
            for piece in [b"ETag: W/", value, b"\r\n"] {
                made.extend_from_slice(piece);
            }
        }
        _ => made.extend_from_slice(line),
    }
}

/// Says in `head` that the content has a coding. A strong tag becomes weak, because the tag names
/// the content without a coding. Ranges of the program are ranges without a coding.
pub(super) fn say_coded(head: &mut ResponseHead, coding: Choice) {
    let mut made = Vec::with_capacity(head.lines.len() + 64);
    for line in field_lines(&head.lines) {
        if !field(line).0.eq_ignore_ascii_case(b"accept-ranges") {
            push_weakened(line, &mut made);
        }
    }
    if let Some(name) = coding.content_encoding() {
        for piece in [b"Content-Encoding: ", name.as_bytes(), b"\r\n"] {
            made.extend_from_slice(piece);
        }
    }
    head.lines = made;
}

/// The content of an answer on its way through an encoder.
pub(super) struct ContentCoding {
    coder: AnswerCoder,
    /// The bytes that the program announced and has not sent.
    left: Option<u64>,
    /// Whether the end of the content was taken.
    has_given_end: bool,
}

/// Output that was coded.
pub(super) struct CodedOutput {
    pub(super) bytes: Vec<u8>,
    /// Whether the program wrote more than it announced.
    pub(super) has_excess: bool,
}

impl ContentCoding {
    pub(super) fn new(coder: AnswerCoder, announced: Option<u64>) -> Self {
        Self { coder, left: announced, has_given_end: false }
    }

    /// Codes more output.
    ///
    /// # Errors
    /// The encoder has no memory, or the server ends.
    pub(super) async fn code(
        &mut self,
        mut output: Bytes,
        progress: OutputProgress,
    ) -> io::Result<CodedOutput> {
        let mut has_excess = false;
        if let Some(left) = &mut self.left {
            let taken = usize::try_from(*left).map_or(output.len(), |left| left.min(output.len()));
            has_excess = taken < output.len();
            output.truncate(taken);
            *left -= taken as u64;
        }
        let end = match (self.left, progress) {
            (Some(0), _) | (None, OutputProgress::Ended) => PieceEnd::Content,
            _ => PieceEnd::Flush,
        };
        let is_idle = output.is_empty() && end == PieceEnd::Flush;
        let bytes = match is_idle || self.coder.has_ended() {
            true => Vec::new(),
            false => self.coder.code(output, end).await?,
        };
        Ok(CodedOutput { bytes, has_excess })
    }

    /// Bytes that the program announced and has not sent.
    pub(super) fn left(&self) -> Option<u64> {
        self.left
    }

    /// Whether the end of the content is due. Says so once.
    pub(super) fn take_end(&mut self) -> bool {
        self.is_complete() && !std::mem::replace(&mut self.has_given_end, true)
    }

    /// Whether the content was coded to its end.
    pub(super) fn is_complete(&self) -> bool {
        self.coder.has_ended()
    }
}

/// Whether a program's output goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputProgress {
    GoesOn,
    Ended,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: u16, length: Option<u64>, lines: &str) -> ResponseHead {
        ResponseHead {
            status,
            is_status_given: true,
            reason: Vec::new(),
            content_length: length,
            is_unbuffered: false,
            lines: lines.replace('\n', "\r\n").into_bytes(),
        }
    }

    fn text(head: &ResponseHead) -> String {
        String::from_utf8(head.lines.clone()).expect("text").replace("\r\n", "\n")
    }

    #[test]
    fn fields_and_status_decide_about_coding() {
        let allowed = |coding| AllowedCoding { rules: Arc::default(), coding };
        let html = "Content-Type: text/html\n";
        let coded = |bytes| AnswerCoding::Coded(CoderPlan { coding: Choice::Gzip, level: 6, bytes });
        for (head, expected) in [
            (head(200, None, html), coded(None)),
            (head(404, Some(5000), html), coded(Some(5000))),
            (head(200, Some(1023), html), AnswerCoding::Identity),
            (head(304, None, ""), AnswerCoding::Identity),
            (head(204, None, html), AnswerCoding::None),
            (head(206, Some(5000), html), AnswerCoding::None),
            (head(200, None, ""), AnswerCoding::None),
            (head(200, None, "Content-Type: image/png\n"), AnswerCoding::None),
            (head(200, None, "content-encoding: gzip\nContent-Type: text/html\n"), AnswerCoding::None),
            (
                head(200, None, "Content-Type: text/html\nCache-Control: max-age=1, No-Transform\n"),
                AnswerCoding::None,
            ),
            (head(200, None, "Content-Type: text/html\nContent-MD5: x\n"), AnswerCoding::None),
            (head(200, None, "Content-Type: text/html\nCache-Control: no-store\n"), coded(None)),
        ] {
            assert_eq!(allowed(Choice::Gzip).of_answer(&head), expected, "{head:?}");
            if matches!(expected, AnswerCoding::Coded(_)) {
                assert_eq!(allowed(Choice::Identity).of_answer(&head), AnswerCoding::Identity);
            }
        }
    }

    #[test]
    fn head_says_coding_and_weak_tag() {
        let mut coded = head(200, None, "Content-Type: text/html\nETag: \"a\"\nAccept-Ranges: bytes\nX: y\n");
        say_varying(&mut coded);
        say_coded(&mut coded, Choice::Br);
        assert_eq!(
            text(&coded),
            "Content-Type: text/html\nETag: W/\"a\"\nX: y\nVary: Accept-Encoding\nContent-Encoding: br\n"
        );
        let mut weak = head(200, None, "etag: W/\"a\"\n");
        weaken_tag(&mut coded);
        assert!(text(&coded).contains("ETag: W/\"a\"\n"), "a weak tag stays");
        let mut revalidated = head(304, None, "ETag: \"a\"\nX: y\n");
        weaken_tag(&mut revalidated);
        assert_eq!(text(&revalidated), "ETag: W/\"a\"\nX: y\n");
        say_coded(&mut weak, Choice::Gzip);
        assert_eq!(text(&weak), "etag: W/\"a\"\nContent-Encoding: gzip\n");
    }

    #[test]
    fn vary_of_program_stays() {
        for (before, after) in [
            ("Vary: Cookie\n", "Vary: Cookie\nVary: Accept-Encoding\n"),
            ("Vary: Cookie, accept-encoding\n", "Vary: Cookie, accept-encoding\n"),
            ("vary: *\n", "vary: *\n"),
        ] {
            let mut varying = head(200, None, before);
            say_varying(&mut varying);
            assert_eq!(text(&varying), after);
        }
    }
}
