//! A request's head: what it is once parsed, and the one function that parses it.
//!
//! This file owns the types; `request/head.rs` the pass over the bytes, `request/line.rs` the request line,
//! `request/fields.rs` the fields that mean something here, `request/list.rs` those that are lists, `request/host.rs` the syntax of hosts. All that
//! makes a head valid or not is decided there, from left to right: the first offending byte decides, so a
//! prefix never gives another verdict than the whole. Bodies are `body.rs`.
//!
//! Invariants (no cut changes a verdict, httparse agrees on all we accept) are tested in `tests/corpus/`,
//! each rule in `request/tests.rs`.

use crate::conditions::Preconditions;
use crate::limits::Limits;
use crate::rejection::Rejection;

mod fields;
mod head;
mod host;
mod line;
mod list;
#[cfg(test)]
mod tests;

pub use head::FieldLines;
pub use list::List;

/// Empty lines tolerated before a request line. RFC 9112 §2.2 asks for at least one, for clients that end a
/// body with a line end too many.
pub const EMPTY_LINES_MAX: usize = 2;

/// Longest method. The longest registered one, `UPDATEREDIRECTREF`, has 17 bytes (IANA registry).
pub const METHOD_BYTES_MAX: usize = 32;

/// What the start of a buffer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a box would allocate per request")]
pub enum Parsed<'a> {
    /// A valid prefix of a head; more bytes are needed.
    Incomplete,
    /// A whole head.
    Complete {
        /// The request; it borrows from the buffer.
        request: Request<'a>,
        /// Bytes of the head, empty lines before it included. The body starts there.
        consumed: usize,
    },
    /// Something that must be answered with an error, and the connection closed.
    Rejected(Rejection),
}

/// A request whose head has been read and found valid. Field values come without white space around them; of
/// a field that is no list and stands on several lines the first line counts: for all fields kept here that
/// costs the client at most a second try, and never gives it wrong bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The method.
    pub method: Method<'a>,
    /// The request target.
    pub target: Target<'a>,
    /// The protocol version.
    pub version: Version,
    /// Host and optional port, from the target if it names one, else from `Host`. Always there in HTTP/1.1.
    pub host: Option<&'a [u8]>,
    /// The conditional fields.
    pub preconditions: Preconditions<'a>,
    /// `Range`.
    pub range: Option<&'a [u8]>,
    /// `Accept-Encoding`.
    pub accept_encoding: Option<List<'a>>,
    /// `Referer`, for the log.
    pub referer: Option<&'a [u8]>,
    /// `User-Agent`, for the log.
    pub user_agent: Option<&'a [u8]>,
    /// How the content is framed.
    pub body: Framing,
    /// Whether the client lets the connection live on after the answer (RFC 9112 §9.3).
    pub keep_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends its content. Answered with a final status
    /// instead, it may or may not send it: the connection must then be closed.
    pub expect_continue: bool,
    /// The field lines as they came.
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
    /// The method as it stands in the request line.
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

/// The protocol version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1, or a later minor version, which is answered as 1.1 (RFC 9110 §2.5).
    Http11,
}

impl Version {
    /// The version as it is spoken here.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
        }
    }
}

/// The request target, cut into its parts but not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// Which of the four forms it has.
    pub form: TargetForm,
    /// All of it, as it came. Bytes beyond ASCII mean what their escapes mean:
    /// [`path::escaped`](crate::path::escaped).
    pub raw: &'a [u8],
    /// The path, still percent-encoded. Starts with `/` in origin and absolute form, is empty in the others.
    pub path: &'a [u8],
    /// What follows the first `?`, if there is one.
    pub query: Option<&'a [u8]>,
}

/// The forms of a request target (RFC 9112 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query`
    Origin,
    /// `http://host/path?query`; the host replaces the one in `Host`.
    Absolute,
    /// `host:port`, with `CONNECT` only.
    Authority,
    /// `*`, with `OPTIONS` only.
    Asterisk,
}

/// How the end of a request's content is found (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    None,
    /// This many bytes, at least one.
    Length(u64),
    /// Chunks.
    Chunked,
}

/// Parses the head at the start of `buf`. Reads as far as the first byte that decides; the cost is linear in
/// the head and nothing is allocated. A caller that gets [`Parsed::Incomplete`] comes back with a longer
/// buffer that starts at the same byte ([`Conversation`](crate::Conversation) does so, and keeps peers that
/// send one byte at a time from making that quadratic).
///
/// # Errors
/// [`Parsed::Rejected`] carries the first thing that is wrong, as soon as it can be known.
#[inline]
pub fn parse<'a>(buf: &'a [u8], limits: &Limits) -> Parsed<'a> {
    match head::parse(buf, limits) {
        Ok((request, consumed)) => Parsed::Complete { request, consumed },
        Err(Stop::More) => Parsed::Incomplete,
        Err(Stop::Reject(rejection)) => Parsed::Rejected(rejection),
    }
}

/// Why a pass over the bytes ended before the end of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    More,
    Reject(Rejection),
}

impl From<Rejection> for Stop {
    fn from(rejection: Rejection) -> Self {
        Self::Reject(rejection)
    }
}
