//! A request's head: the parsed form, and the single function that parses the head.
//!
//! This file owns the types. `request/head.rs` has the pass over the bytes, `request/line.rs` the
//! request line, and `request/fields.rs` the fields with a meaning here. `list.rs` has the fields
//! that are lists, `field_lines.rs` the lines, `request/host.rs` the syntax of hosts. These files
//! decide whether a head is valid, from left to right. The first offending byte decides, so a
//! prefix never gives another verdict than the whole. Bodies are in `body.rs`.
//!
//! Invariants (no cut changes a verdict, httparse accepts every accepted head) are tested in
//! `tests/corpus/`, each rule in `request/tests.rs`.

use crate::conditions::Preconditions;
use crate::field_lines::FieldLines;
use crate::limits::ConnectionLimits;
use crate::list::ListField;
use crate::rejection::{ParseStop, Rejection};
use crate::version::Version;

mod fields;
mod head;
mod host;
mod line;
#[cfg(test)]
mod tests;

/// Empty lines tolerated before a request line. RFC 9112 §2.2 asks for at least one, because some
/// clients end a body with an extra line end.
pub const EMPTY_LINES_MAX: usize = 2;

/// Longest method. The longest registered method, `UPDATEREDIRECTREF`, has 17 bytes (IANA
/// registry).
pub const METHOD_BYTES_MAX: usize = 32;

/// The content at the start of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a box would allocate per request")]
pub enum ParsedPart<'a> {
    /// A valid prefix of a head; more bytes are needed.
    Incomplete,
    /// A whole head.
    Complete {
        /// The request; borrows from the buffer.
        request: Request<'a>,
        /// Bytes of the head, empty lines before the head included. The body starts there.
        consumed: usize,
    },
    /// Something that must be answered with an error, and the connection closed.
    Rejected(Rejection),
}

/// A valid request head. Field values have no white space around them. When a field that is no list
/// has several lines, the first line counts. For all fields kept here, that costs the client at
/// most a second try, and never gives the client wrong bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The method.
    pub method: Method<'a>,
    /// The request target.
    pub target: Target<'a>,
    /// The protocol version.
    pub version: Version,
    /// Host and optional port, from the target if the target has a host, else from `Host`. Always
    /// present in HTTP/1.1.
    pub host: Option<&'a [u8]>,
    /// The conditional fields.
    pub preconditions: Preconditions<'a>,
    /// `Range`.
    pub range: Option<&'a [u8]>,
    /// `Accept-Encoding`.
    pub accept_encoding: Option<ListField<'a>>,
    /// `Referer`, for the log.
    pub referer: Option<&'a [u8]>,
    /// `User-Agent`, for the log.
    pub user_agent: Option<&'a [u8]>,
    /// How the content is framed.
    pub body: Framing,
    /// Whether the client lets the connection live on after the answer (RFC 9112 §9.3).
    pub keep_alive: bool,
    /// Whether the client waits for `100 Continue` before the client sends its content. After a
    /// final status the client may or may not send the content, so the connection must be closed.
    pub expect_continue: bool,
    /// The field lines as received.
    pub fields: FieldLines<'a>,
}

/// The method (RFC 9110 §9). Names are case-sensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method<'a> {
    /// `GET`
    Get,
    /// `HEAD`
    Head,
    /// `OPTIONS`
    Options,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `DELETE`
    Delete,
    /// `PATCH`
    Patch,
    /// `TRACE`
    Trace,
    /// `CONNECT`
    Connect,
    /// Any other token of at most [`METHOD_BYTES_MAX`] bytes.
    Other(&'a [u8]),
}

impl<'a> Method<'a> {
    /// The method, as in the request line.
    pub fn as_bytes(self) -> &'a [u8] {
        match self {
            Self::Get => b"GET",
            Self::Head => b"HEAD",
            Self::Options => b"OPTIONS",
            Self::Post => b"POST",
            Self::Put => b"PUT",
            Self::Delete => b"DELETE",
            Self::Patch => b"PATCH",
            Self::Trace => b"TRACE",
            Self::Connect => b"CONNECT",
            Self::Other(name) => name,
        }
    }
}

/// The request target, cut into its parts but not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The form of the target.
    pub form: TargetForm,
    /// The whole target, as received. Bytes beyond ASCII mean the same as their escapes:
    /// [`path::escaped`](crate::path::escaped).
    pub raw: &'a [u8],
    /// The path, still percent-encoded. Starts with `/` in origin and absolute form, is empty in
    /// the others.
    pub path: &'a [u8],
    /// The query after the first `?`, if there is a `?`.
    pub query: Option<&'a [u8]>,
}

/// The forms of a request target (RFC 9112 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query`
    Origin,
    /// `http://host/path?query`; the host replaces the value of `Host`.
    Absolute,
    /// `host:port`, with `CONNECT` only.
    Authority,
    /// `*`, with `OPTIONS` only.
    Asterisk,
}

/// How the end of a request's content is found (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no content.
    None,
    /// This many bytes, at least one.
    Length(u64),
    /// Chunks.
    Chunked,
}

/// Parses again a head that was parsed before. Bounds on its length do not hold any more, because
/// the operator may have lowered them since. `None` if `head` is no head of a request.
pub fn parse_again(head: &[u8]) -> Option<Request<'_>> {
    let unbounded = ConnectionLimits {
        request_line_bytes: usize::MAX,
        header_count: usize::MAX,
        header_bytes: usize::MAX,
        ..ConnectionLimits::default()
    };
    head::parse(head, &unbounded).ok().map(|(request, _)| request)
}

/// Parses the head at the start of `buf`. The parser reads up to the first byte that decides. The
/// cost is linear in the head, and the parser allocates nothing. After [`ParsedPart::Incomplete`]
/// the caller calls again with a longer buffer that starts at the same byte.
/// [`Conversation`](crate::Conversation) does so, and avoids quadratic cost for peers that send one
/// byte at a time.
///
/// # Errors
///
/// [`ParsedPart::Rejected`] carries the first error, as soon as the error is certain.
#[inline]
pub fn parse<'a>(buf: &'a [u8], limits: &ConnectionLimits) -> ParsedPart<'a> {
    match head::parse(buf, limits) {
        Ok((request, consumed)) => ParsedPart::Complete { request, consumed },
        Err(ParseStop::More) => ParsedPart::Incomplete,
        Err(ParseStop::Reject(rejection)) => ParsedPart::Rejected(rejection),
    }
}
