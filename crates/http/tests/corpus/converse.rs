//! A whole connection, with its input cut anywhere, and the properties that any two cuts share.

use vermeil_http::{ConnectionLimits, Conversation, ConversationEvent, Framing, ParsedPart, Request, parse};

/// Runs a connection as a server does, with `input` arriving in `pieces`, and reports the events:
///
/// - a request: `METHOD TARGET HOST keep|close`, then ` continue` if the client waits for `100
///   Continue`, then ` body=` with its content;
/// - a refusal: the status code and the kind;
/// - `more` if the input ends within a request.
///
/// After `@` stands the position in the input at which each event ended.
pub(crate) fn converse<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: &ConnectionLimits) -> String {
    let mut conversation = Conversation::new();
    let mut transcript = Transcript::default();
    let mut buf = Vec::new();
    for piece in pieces {
        buf.extend_from_slice(piece);
        while let Some(consumed) = transcript.step(&mut conversation, &buf, limits) {
            buf.drain(..consumed);
        }
    }
    if conversation.is_amid_request() {
        transcript.lines.push("more".to_owned());
    }
    transcript.lines.join("; ")
}

#[derive(Default)]
struct Transcript {
    lines: Vec<String>,
    position: usize,
    body: Vec<u8>,
    ended: bool,
}

impl Transcript {
    /// Handles one event; `None` if there is nothing to do before more bytes arrive.
    fn step(
        &mut self,
        conversation: &mut Conversation,
        buf: &[u8],
        limits: &ConnectionLimits,
    ) -> Option<usize> {
        match conversation.next(buf, limits) {
            ConversationEvent::NeedMore | ConversationEvent::Closed => None,
            ConversationEvent::Request { request, consumed } => {
                self.position += consumed;
                self.lines.push(describe(&request));
                if request.body == Framing::None {
                    self.end();
                }
                Some(consumed)
            }
            ConversationEvent::Body { consumed, data, done } => {
                assert!(data.end <= consumed && consumed <= buf.len());
                self.position += consumed;
                self.body.extend_from_slice(&buf[data]);
                if done {
                    let body = std::mem::take(&mut self.body);
                    let line = self.lines.last_mut().expect("a body follows a request");
                    line.push_str(&format!(" body={}", body.escape_ascii()));
                    self.end();
                }
                Some(consumed)
            }
            ConversationEvent::Reject(rejection) => {
                assert!(!self.ended, "a refusal is the last thing that happens");
                self.ended = true;
                self.lines.push(format!("{} {rejection:?}", rejection.status().code()));
                None
            }
        }
    }

    fn end(&mut self) {
        let position = self.position;
        self.lines.last_mut().expect("something ended").push_str(&format!(" @{position}"));
    }
}

fn describe(request: &Request<'_>) -> String {
    let method = request.method.as_bytes().escape_ascii();
    let target = request.target.raw.escape_ascii();
    let host = request.host.unwrap_or(b"-").escape_ascii();
    let keep = if request.keep_alive { "keep" } else { "close" };
    let wait = if request.expect_continue { " continue" } else { "" };
    format!("{method} {target} {host} {keep}{wait}")
}

/// The same line without the positions, which tables do not repeat.
pub(crate) fn without_positions(line: &str) -> String {
    line.split("; ")
        .map(|part| part.rsplit_once(" @").map_or(part, |(before, _)| before))
        .collect::<Vec<_>>()
        .join("; ")
}

/// Every prefix of `input` gives "incomplete" or the verdict of the whole. A verdict never changes
/// once it is decided.
pub(crate) fn check_prefixes(input: &[u8], limits: &ConnectionLimits) {
    let whole = parse(input, limits);
    let mut decided = false;
    for len in 0..input.len() {
        match parse(&input[..len], limits) {
            ParsedPart::Incomplete => {
                assert!(!decided, "undecided again at {len} of {}", input.escape_ascii())
            }
            verdict => {
                assert_eq!(verdict, whole, "at {len} of {}", input.escape_ascii());
                decided = true;
            }
        }
    }
}

/// Fed byte by byte, a connection decides at the very byte at which the parser can.
pub(crate) fn check_moment(input: &[u8], limits: &ConnectionLimits) {
    let mut conversation = Conversation::new();
    for len in 1..=input.len() {
        let is_open = matches!(parse(&input[..len], limits), ParsedPart::Incomplete);
        let still = matches!(conversation.next(&input[..len], limits), ConversationEvent::NeedMore);
        assert_eq!(still, is_open, "at {len} of {}", input.escape_ascii());
        if !is_open {
            return;
        }
    }
}

/// httparse reads every accepted head the same way.
pub(crate) fn check_against_httparse(input: &[u8], limits: &ConnectionLimits) {
    let ParsedPart::Complete { request, consumed } = parse(input, limits) else { return };
    let mut headers = [httparse::EMPTY_HEADER; 128];
    let mut other = httparse::Request::new(&mut headers);
    // httparse accepts no minor version beyond 1, and in targets only UTF-8 beyond ASCII. So
    // httparse gets other bytes instead.
    let line_start = input.iter().position(|byte| !b"\r\n".contains(byte)).unwrap_or(0);
    let line_end = line_start + input[line_start..].iter().position(|&byte| byte == b'\r').unwrap_or(0);
    let mut shown = input.to_vec();
    if let Some(minor @ b'2'..=b'9') = shown[..line_end].last_mut() {
        *minor = b'1';
    }
    let ascii = |byte: &u8| if byte.is_ascii() { *byte } else { b'x' };
    let line: Vec<u8> = shown[..line_end].iter().map(ascii).collect();
    shown[..line_end].copy_from_slice(&line);
    let status = other.parse(&shown);
    assert_eq!(status, Ok(httparse::Status::Complete(consumed)), "{}", input.escape_ascii());
    assert_eq!(other.method.map(str::as_bytes), Some(request.method.as_bytes()));
    let target: Vec<u8> = request.target.raw.iter().map(ascii).collect();
    assert_eq!(other.path.map(str::as_bytes), Some(&target[..]));
    assert_eq!(
        other.version.map(|minor| format!("HTTP/1.{minor}")).as_deref(),
        Some(request.version.as_str())
    );
    let theirs: Vec<_> = other.headers.iter().map(|h| (h.name.as_bytes(), h.value)).collect();
    assert_eq!(theirs, request.fields.collect::<Vec<_>>());
}
