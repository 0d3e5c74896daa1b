//! The head of a response: status codes, field lines, and persistence of the connection.
//!
//! [`HeadWriter`] appends to a buffer of the caller, and never allocates if the buffer has room.
//! Dates are in `response/date.rs`, error pages and the escaping of HTML in `response/page.rs`.
//! Byte-exact examples: `response/tests.rs`.

use crate::request::Version;

mod date;
mod page;
#[cfg(test)]
mod tests;

pub use date::HttpDate;
pub use page::{Content, ErrorPage, html_escape};

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $code:literal $reason:literal,)*) => {
        /// The status codes this server answers with (RFC 9110 §15).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Status {
            $($(#[$doc])* $name = $code,)*
        }

        impl Status {
            /// All status codes, ascending.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The phrase behind the code.
            pub const fn reason(self) -> &'static str {
                match self {
                    $(Self::$name => $reason,)*
                }
            }

            const fn line(self) -> &'static [u8] {
                match self {
                    $(Self::$name => concat!("HTTP/1.1 ", $code, " ", $reason, "\r\n").as_bytes(),)*
                }
            }
        }
    };
}

statuses! {
    /// 100
    Continue = 100 "Continue",
    /// 200
    Ok = 200 "OK",
    /// 204
    NoContent = 204 "No Content",
    /// 206
    PartialContent = 206 "Partial Content",
    /// 301
    MovedPermanently = 301 "Moved Permanently",
    /// 302
    Found = 302 "Found",
    /// 303
    SeeOther = 303 "See Other",
    /// 304
    NotModified = 304 "Not Modified",
    /// 307
    TemporaryRedirect = 307 "Temporary Redirect",
    /// 308
    PermanentRedirect = 308 "Permanent Redirect",
    /// 400
    BadRequest = 400 "Bad Request",
    /// 403
    Forbidden = 403 "Forbidden",
    /// 404
    NotFound = 404 "Not Found",
    /// 405
    MethodNotAllowed = 405 "Method Not Allowed",
    /// 408
    RequestTimeout = 408 "Request Timeout",
    /// 412
    PreconditionFailed = 412 "Precondition Failed",
    /// 413
    ContentTooLarge = 413 "Content Too Large",
    /// 414
    UriTooLong = 414 "URI Too Long",
    /// 416
    RangeNotSatisfiable = 416 "Range Not Satisfiable",
    /// 417
    ExpectationFailed = 417 "Expectation Failed",
    /// 421
    MisdirectedRequest = 421 "Misdirected Request",
    /// 429
    TooManyRequests = 429 "Too Many Requests",
    /// 431
    RequestHeaderFieldsTooLarge = 431 "Request Header Fields Too Large",
    /// 500
    InternalServerError = 500 "Internal Server Error",
    /// 501
    NotImplemented = 501 "Not Implemented",
    /// 502
    BadGateway = 502 "Bad Gateway",
    /// 503
    ServiceUnavailable = 503 "Service Unavailable",
    /// 504
    GatewayTimeout = 504 "Gateway Timeout",
    /// 505
    HttpVersionNotSupported = 505 "HTTP Version Not Supported",
}

impl Status {
    /// The number.
    pub const fn code(self) -> u16 {
        self as u16
    }
}

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

/// Writes one response head. Begun with [`HeadWriter::new`], ended with [`HeadWriter::finish`].
#[must_use = "a head ends with finish()"]
#[derive(Debug)]
pub struct HeadWriter<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> HeadWriter<'a> {
    /// Appends the status line. The version is always 1.1, the server's own, for every version of
    /// the request (RFC 9110 §2.5).
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
    /// If `value` holds a CR or LF: that would be a way for a client to write our response.
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

    /// Appends `Connection` if needed: for closing in HTTP/1.1, and for keeping the connection in
    /// 1.0.
    #[inline]
    pub fn connection(self, version: Version, persistence: Persistence) -> Self {
        match (version, persistence) {
            (Version::Http11, Persistence::KeepAlive) => self,
            (Version::Http10, Persistence::KeepAlive) => self.raw(&[b"Connection: keep-alive\r\n"]),
            (_, Persistence::Close) => self.raw(&[b"Connection: close\r\n"]),
        }
    }

    /// Appends the empty line.
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
