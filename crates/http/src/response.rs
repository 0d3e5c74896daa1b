//! Writes the head of a response: the status line and the field lines.
//!
//! [`HeadWriter`] appends to a buffer of the caller, and never allocates if the buffer has room.
//! Dates are in `date.rs`, error pages and the escaping of HTML in `response/page.rs`.
//! Byte-exact examples: `response/tests.rs`.

use crate::date::HttpDate;
use crate::status::Status;
use crate::version::Version;

mod page;
#[cfg(test)]
mod tests;

pub use page::{ErrorPage, PageContent, html_escape};

/// `100 Continue` on the wire.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Whether the connection outlives the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// The connection stays open.
    KeepAlive,
    /// The server closes the connection.
    Close,
}

/// Writes one response head, from [`HeadWriter::new`] to [`HeadWriter::finish`].
#[must_use = "a head ends with finish()"]
#[derive(Debug)]
pub struct HeadWriter<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> HeadWriter<'a> {
    /// Appends the status line. The version is always 1.1, the version of the server, whatever the
    /// version of the request (RFC 9110 §2.5).
    #[inline]
    pub fn new(out: &'a mut Vec<u8>, status: Status) -> Self {
        out.extend_from_slice(status.line());
        Self { out }
    }

    /// Continues a head whose status line and first field lines are at the end of `out`.
    #[inline]
    pub fn resume(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Appends a field line.
    ///
    /// # Panics
    /// If `value` holds a CR or LF, because a client could then add field lines of its own
    /// (response splitting).
    #[inline]
    pub fn field(self, name: &str, value: &[u8]) -> Self {
        assert!(!value.iter().any(|&b| b == b'\r' || b == b'\n'), "line end in the value of {name}");
        self.raw(&[name.as_bytes(), b": ", value, b"\r\n"])
    }

    /// Appends ready-made field lines, each with its line end.
    #[inline]
    pub fn lines(self, lines: &[u8]) -> Self {
        debug_assert!(lines.is_empty() || lines.ends_with(b"\r\n"), "field lines end in CRLF");
        self.raw(&[lines])
    }

    /// Appends groups of ready-made field lines.
    #[inline]
    fn groups(self, groups: &[&[u8]]) -> Self {
        groups.iter().fold(self, |head, lines| head.lines(lines))
    }

    /// Appends `Content-Length`, in bytes.
    #[inline]
    pub fn content_length(self, length: u64) -> Self {
        let mut digits = itoa::Buffer::new();
        self.raw(&[b"Content-Length: ", digits.format(length).as_bytes(), b"\r\n"])
    }

    /// Appends `Date`.
    #[inline]
    pub fn date(self, now: &HttpDate) -> Self {
        self.raw(&[b"Date: ", now.as_bytes(), b"\r\n"])
    }

    /// Appends `Last-Modified`.
    #[inline]
    pub fn last_modified(self, time: &HttpDate) -> Self {
        self.raw(&[b"Last-Modified: ", time.as_bytes(), b"\r\n"])
    }

    /// Appends `Connection`, except for a persistent connection in HTTP/1.1, where persistence is
    /// the default (RFC 9112 §9.3).
    #[inline]
    pub fn connection(self, version: Version, persistence: Persistence) -> Self {
        match (version, persistence) {
            (Version::Http11, Persistence::KeepAlive) => self,
            (Version::Http10, Persistence::KeepAlive) => self.raw(&[b"Connection: keep-alive\r\n"]),
            (_, Persistence::Close) => self.raw(&[b"Connection: close\r\n"]),
        }
    }

    /// Appends the empty line that ends the head.
    #[inline]
    pub fn finish(self) {
        self.out.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn raw(self, pieces: &[&[u8]]) -> Self {
        for piece in pieces {
            self.out.extend_from_slice(piece);
        }
        self
    }
}
