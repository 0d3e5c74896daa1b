//! The small error page, and the escaping that every page needs.

use super::{HeadWriter, Persistence};
use crate::date::HttpDate;
use crate::status::Status;
use crate::version::Version;

/// Whether the content is sent, or only its head, as the answer to `HEAD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageContent {
    /// Head and content.
    Sent,
    /// The head only, the same as if the content were sent.
    Omitted,
}

/// A complete response that says a status and a reason.
#[derive(Clone, Copy, Debug)]
pub struct ErrorPage<'a> {
    /// The status; must be a status with content.
    pub status: Status,
    /// One more sentence, or an empty text. The writer escapes the text.
    pub detail: &'a str,
    /// The version of the request.
    pub version: Version,
    /// The persistence of the connection.
    pub persistence: Persistence,
    /// Whether the page is sent, or only the head.
    pub content: PageContent,
    /// The present.
    pub now: &'a HttpDate,
    /// More field lines (`Allow`, `Retry-After`) in groups, each line with its line end.
    pub lines: &'a [&'a [u8]],
}

impl ErrorPage<'_> {
    /// Appends the response; returns the bytes of content sent. Without a detail, the page is
    /// written into `out` directly, because an answer to a missing path should allocate nothing.
    pub fn write(&self, out: &mut Vec<u8>) -> u64 {
        let title = self.status.title();
        let mut detail = Vec::new();
        if !self.detail.is_empty() {
            detail.extend_from_slice(b"<p>");
            html_escape(self.detail.as_bytes(), &mut detail);
            detail.extend_from_slice(b".</p>\n");
        }
        let page: [&[u8]; 6] = [
            b"<!doctype html>\n<meta charset=\"utf-8\">\n<title>",
            title,
            b"</title>\n<h1>",
            title,
            b"</h1>\n",
            &detail,
        ];
        let bytes = page.iter().map(|part| part.len() as u64).sum();
        HeadWriter::new(out, self.status)
            .date(self.now)
            .field("Content-Type", b"text/html; charset=utf-8")
            .content_length(bytes)
            .groups(self.lines)
            .connection(self.version, self.persistence)
            .finish();
        match self.content {
            PageContent::Omitted => 0,
            PageContent::Sent => {
                page.iter().for_each(|part| out.extend_from_slice(part));
                bytes
            }
        }
    }
}

/// Appends `text` with escapes for HTML, in content or within quotes. Invalid UTF-8 becomes U+FFFD.
pub fn html_escape(text: &[u8], out: &mut Vec<u8>) {
    for chunk in text.utf8_chunks() {
        for &byte in chunk.valid().as_bytes() {
            match byte {
                b'&' => out.extend_from_slice(b"&amp;"),
                b'<' => out.extend_from_slice(b"&lt;"),
                b'>' => out.extend_from_slice(b"&gt;"),
                b'"' => out.extend_from_slice(b"&quot;"),
                b'\'' => out.extend_from_slice(b"&#39;"),
                byte => out.push(byte),
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}
