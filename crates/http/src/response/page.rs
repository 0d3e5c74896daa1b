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
    /// More field lines (`Allow`, `Retry-After`), each with its line end.
    pub lines: &'a [u8],
}

impl ErrorPage<'_> {
    /// Appends the response; returns the bytes of content sent.
    pub fn write(&self, out: &mut Vec<u8>) -> u64 {
        let page = self.html();
        HeadWriter::new(out, self.status)
            .date(self.now)
            .field("Content-Type", b"text/html; charset=utf-8")
            .content_length(page.len() as u64)
            .lines(self.lines)
            .connection(self.version, self.persistence)
            .finish();
        match self.content {
            PageContent::Omitted => 0,
            PageContent::Sent => {
                out.extend_from_slice(&page);
                page.len() as u64
            }
        }
    }

    fn html(&self) -> Vec<u8> {
        let title = format!("{} {}", self.status.code(), self.status.reason());
        let mut page = Vec::with_capacity(256);
        page.extend_from_slice(b"<!doctype html>\n<meta charset=\"utf-8\">\n<title>");
        page.extend_from_slice(title.as_bytes());
        page.extend_from_slice(b"</title>\n<h1>");
        page.extend_from_slice(title.as_bytes());
        page.extend_from_slice(b"</h1>\n");
        if !self.detail.is_empty() {
            page.extend_from_slice(b"<p>");
            html_escape(self.detail.as_bytes(), &mut page);
            page.extend_from_slice(b".</p>\n");
        }
        page
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
