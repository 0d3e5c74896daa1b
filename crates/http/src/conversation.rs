//! One connection's input as a machine: heads, bodies, and the end.
//!
//! ```text
//! Head ── request without content ──▶ Head                 (or Closed, if it was the last)
//! Head ── request with content ─────▶ Body ── its end ──▶ Head (or Closed)
//! any  ── something refused ────────▶ Closed
//! ```
//!
//! The machine owns no bytes. The caller keeps a buffer, passes the unread part, and drops the
//! bytes that an event consumed. The server runs this machine, and the tests run it on every cut of
//! the input: `tests/corpus/`. `conversation/tests.rs` checks each request, the order and the
//! number of requests.

use std::ops::Range;

use crate::body::BodyReader;
use crate::limits::ConnectionLimits;
use crate::rejection::Rejection;
use crate::request::{Framing, ParsedPart, Request, parse};

mod progress;
#[cfg(test)]
mod tests;

use progress::HeadPart;

/// The input side of one connection.
///
/// ```
/// use vermeil_http::{Conversation, ConversationEvent, ConnectionLimits};
///
/// let limits = ConnectionLimits::default();
/// let mut conversation = Conversation::new();
/// let mut buf = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHo".to_vec();
/// let mut paths = Vec::new();
/// loop {
///     let consumed = match conversation.next(&buf, &limits) {
///         ConversationEvent::Request { request, consumed } => {
///             paths.push(request.target.path.to_vec());
///             consumed
///         }
///         ConversationEvent::Body { consumed, .. } => consumed,
///         _ => break,
///     };
///     buf.drain(..consumed);
/// }
/// assert_eq!(paths, [b"/a"]);
/// assert_eq!(buf, b"GET /b HTTP/1.1\r\nHo");
/// ```
#[derive(Clone, Debug)]
pub struct Conversation {
    state: ConversationState,
    /// Whether the connection continues after the present request.
    goes_on: bool,
    requests: u32,
}

#[derive(Clone, Debug)]
enum ConversationState {
    /// Waits for a head. The first `seen` bytes of the buffer are a valid prefix of a head, which
    /// ends in `place`.
    Head {
        seen: usize,
        place: HeadPart,
    },
    Body(BodyReader),
    /// The content of the last request is longer than the limit, so the machine does not read the
    /// content.
    TooLong,
    Closed,
}

/// The meaning of the bytes that [`Conversation::next`] was given.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a box would allocate per request")]
pub enum ConversationEvent<'a> {
    /// No event yet. The caller must call again with the same bytes and more bytes after them.
    NeedMore,
    /// A request, which the caller must answer. If the framing is not [`Framing::None`], body
    /// events follow, else the next request.
    Request {
        /// The request. `keep_alive` is also false if the limit of requests is reached, so the
        /// answer must follow `keep_alive`.
        request: Request<'a>,
        /// Bytes to drop from the buffer.
        consumed: usize,
    },
    /// A part of the content of the last request.
    Body {
        /// Bytes to drop from the buffer.
        consumed: usize,
        /// The content among the consumed bytes.
        data: Range<usize>,
        /// Whether the content is complete.
        done: bool,
    },
    /// The input must be refused: the caller answers with the error and closes the connection. If
    /// the event comes within the content of an answered request, the caller only closes the
    /// connection.
    Reject(Rejection),
    /// Nothing more is read from this connection: the last answer has been, or is, the last.
    Closed,
}

impl Default for Conversation {
    fn default() -> Self {
        Self::new()
    }
}

impl Conversation {
    /// A connection that has just been accepted.
    pub fn new() -> Self {
        Self { state: ConversationState::BEGIN, goes_on: true, requests: 0 }
    }

    /// A connection on which so many requests have been read, and nothing of the next.
    pub fn after(requests: u32) -> Self {
        Self { requests, ..Self::new() }
    }

    /// Requests read so far.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    /// Whether bytes of a request have been read, or are awaited. Empty lines before a request
    /// count too, although they begin no head.
    pub fn is_amid_request(&self) -> bool {
        match self.state {
            ConversationState::Head { seen, .. } => seen > 0,
            ConversationState::Body(_) | ConversationState::TooLong => true,
            ConversationState::Closed => false,
        }
    }

    /// Whether the content of a request is being read.
    pub fn is_amid_body(&self) -> bool {
        matches!(self.state, ConversationState::Body(_) | ConversationState::TooLong)
    }

    /// Stops reading: the answer to the present request is the last answer. For a server that
    /// drains, or that answers with a final status while the client waits for `100 Continue`.
    pub fn close(&mut self) {
        self.goes_on = false;
        self.state = ConversationState::Closed;
    }

    /// Looks at `buf`, the bytes received and not yet consumed. Call again after each event but
    /// [`ConversationEvent::NeedMore`], until there is nothing left to do; `limits` must stay the
    /// same.
    #[inline]
    pub fn next<'a>(&mut self, buf: &'a [u8], limits: &ConnectionLimits) -> ConversationEvent<'a> {
        match &mut self.state {
            ConversationState::Head { seen, place } => match is_still_open(buf, seen, place, limits) {
                true => ConversationEvent::NeedMore,
                false => self.head(buf, limits),
            },
            ConversationState::Body(reader) => {
                let read = reader.read(buf);
                self.body(read)
            }
            ConversationState::TooLong => self.reject(Rejection::BodyTooLong),
            ConversationState::Closed => ConversationEvent::Closed,
        }
    }

    #[inline]
    fn head<'a>(&mut self, buf: &'a [u8], limits: &ConnectionLimits) -> ConversationEvent<'a> {
        let (mut request, consumed) = match parse(buf, limits) {
            ParsedPart::Complete { request, consumed } => (request, consumed),
            ParsedPart::Incomplete => {
                self.state = ConversationState::Head { seen: buf.len(), place: HeadPart::of(buf) };
                return ConversationEvent::NeedMore;
            }
            ParsedPart::Rejected(rejection) => return self.reject(rejection),
        };
        self.requests += 1;
        // Content over the limit ends the connection, but the request still gets an answer. The
        // caller judges the target and the method before the content.
        let reader = BodyReader::new(request.body, limits);
        request.keep_alive &= self.requests < limits.requests_per_connection && reader.is_ok();
        self.goes_on = request.keep_alive;
        match reader {
            Ok(_) if request.body == Framing::None => self.end_request(),
            Ok(reader) => self.state = ConversationState::Body(reader),
            Err(_) => self.state = ConversationState::TooLong,
        }
        ConversationEvent::Request { request, consumed }
    }

    fn body(&mut self, read: Result<crate::body::BodyStep, Rejection>) -> ConversationEvent<'static> {
        match read {
            Err(rejection) => self.reject(rejection),
            Ok(step) if step.consumed == 0 && !step.done => ConversationEvent::NeedMore,
            Ok(step) => {
                if step.done {
                    self.end_request();
                }
                ConversationEvent::Body { consumed: step.consumed, data: step.data, done: step.done }
            }
        }
    }

    fn end_request(&mut self) {
        self.state = if self.goes_on { ConversationState::BEGIN } else { ConversationState::Closed };
    }

    #[cold]
    fn reject(&mut self, rejection: Rejection) -> ConversationEvent<'static> {
        self.close();
        ConversationEvent::Reject(rejection)
    }
}

impl ConversationState {
    /// Nothing of a head has come.
    const BEGIN: Self = Self::Head { seen: 0, place: HeadPart::Method(0) };
}

/// Whether `buf` still leaves the verdict open. The first `seen` bytes are a valid prefix that ends
/// in `place`; if the verdict is open, `seen` and `place` advance to the end of `buf`. Parsing
/// starts over each time, so a peer that sends its head byte by byte would make the cost quadratic.
/// Therefore only a byte that may decide the verdict triggers a pass. Such bytes are the ends of
/// lines (at most [`ConnectionLimits::header_count`]), the few bytes of a version, and the bytes at
/// which a limit is reached.
#[inline]
fn is_still_open(buf: &[u8], seen: &mut usize, place: &mut HeadPart, limits: &ConnectionLimits) -> bool {
    if *seen == 0 {
        return buf.is_empty();
    }
    let Some(new) = buf.get(*seen..) else { return false };
    let bytes_max = match place.is_in_request_line() {
        true => limits.request_line_bytes.min(limits.header_bytes),
        false => limits.header_bytes,
    };
    let after = place.after(new);
    if after == HeadPart::Elsewhere || buf.len() >= bytes_max {
        return false;
    }
    (*seen, *place) = (buf.len(), after);
    true
}
