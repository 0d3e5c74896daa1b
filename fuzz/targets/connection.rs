//! A whole connection: invented requests, each answered by an invented program, parsed and relayed
//! as in the server. A client that knows the protocol reads the result: a whole answer for each
//! request, in order, and nothing in between. Therefore the last request gets the last answer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vermeil_http::{
    ConnectionLimits, Conversation, ConversationEvent, HttpDate, Method, Request, Version,
    gateway::{
        Body, BodyFraming, HeadLimits, HeadReader, ProgramAnswer,
        body::{CHUNK_END, ContentEnd, ContentPiece, LAST_CHUNK, chunk_header},
        redirect,
    },
    response::{HeadWriter, PageContent, Persistence},
};

/// The last request of a connection, and the content that only its answer has.
const LAST: &[u8] = b"GET /last HTTP/1.1\r\nHost: h\r\n\r\n";
const MARK: &[u8] = b"the last answer";

/// The state of the connection after an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// The client has the whole answer, and the connection continues.
    Whole { is_head: bool },
    /// The connection ends with the answer.
    Ended,
}

/// Answers `request` with the output of a program, which arrives in pieces of `step` bytes. The
/// server's own answers have no content here.
fn relay(request: &Request<'_>, program: &[u8], step: usize, out: &mut Vec<u8>) -> Sent {
    let is_head = request.method == Method::Head;
    let content = if is_head { PageContent::Omitted } else { PageContent::Sent };
    let mut reader = HeadReader::new(HeadLimits::default());
    let mut read = Ok(None);
    let mut end = 0;
    while matches!(read, Ok(None)) && end < program.len() {
        end = (end + step).min(program.len());
        read = reader.read(&program[..end]);
    }
    let (head, head_len) = match read {
        Ok(Some((ProgramAnswer::Document(head), len))) => (head, len),
        Ok(Some((ProgramAnswer::LocalRedirect(location), _))) => {
            let mut inner = Vec::new();
            if redirect::write_request(request, &location, &mut inner).is_ok() {
                assert_eq!(inner.windows(4).filter(|four| four == b"\r\n\r\n").count(), 1, "one request");
            }
            return own(request, out, is_head);
        }
        _ => return own(request, out, is_head),
    };
    let mut body = Body::new(&head, request.version, content);
    let persistence = match body.framing() {
        BodyFraming::UntilClose => Persistence::Close,
        _ if request.keep_alive => Persistence::KeepAlive,
        _ => Persistence::Close,
    };
    head.write(out);
    let writer = HeadWriter::resume(out).date(&HttpDate::new(0));
    body.write_framing(&head, writer).connection(request.version, persistence).finish();
    for piece in program[head_len..].chunks(step) {
        match body.piece(piece.len()) {
            ContentPiece::Dropped => {}
            ContentPiece::Plain(bytes) => out.extend_from_slice(&piece[..bytes]),
            ContentPiece::Chunk => {
                chunk_header(out, piece.len());
                out.extend_from_slice(piece);
                out.extend_from_slice(CHUNK_END);
            }
        }
    }
    match body.end() {
        ContentEnd::Short | ContentEnd::Close => return Sent::Ended,
        ContentEnd::LastChunk => out.extend_from_slice(LAST_CHUNK),
        ContentEnd::Complete => {}
    }
    if persistence == Persistence::Close { Sent::Ended } else { Sent::Whole { is_head } }
}

/// An answer of the server itself.
fn own(request: &Request<'_>, out: &mut Vec<u8>, is_head: bool) -> Sent {
    out.extend_from_slice(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n");
    let persistence = if request.keep_alive { Persistence::KeepAlive } else { Persistence::Close };
    HeadWriter::resume(out).connection(request.version, persistence).finish();
    if request.keep_alive { Sent::Whole { is_head } } else { Sent::Ended }
}

/// Reads an answer from `bytes`, as a client does; returns its content and the remaining bytes.
fn read_answer(bytes: &[u8], is_head: bool) -> (Vec<u8>, &[u8]) {
    let mut fields = [httparse::EMPTY_HEADER; 256];
    let mut response = httparse::Response::new(&mut fields);
    let status = response.parse(bytes).unwrap_or_else(|error| panic!("{error} in {}", bytes.escape_ascii()));
    let httparse::Status::Complete(len) = status else { panic!("no whole head: {}", bytes.escape_ascii()) };
    let rest = &bytes[len..];
    let values = |name: &str| -> Vec<&[u8]> {
        let named = response.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        named.map(|field| field.value).collect()
    };
    let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
    assert!(lengths.len() + codings.len() <= 1, "one framing");
    assert!(values("connection").iter().all(|value| *value == b"keep-alive"), "the connection goes on");
    let has_none = is_head || matches!(response.code, Some(100..=199 | 204 | 304));
    if has_none {
        return (Vec::new(), rest);
    }
    if let [coding] = codings[..] {
        assert_eq!(coding, b"chunked");
        return unchunked(rest);
    }
    let [length] = lengths[..] else { panic!("no framing: {}", bytes.escape_ascii()) };
    let length: usize = std::str::from_utf8(length).expect("digits").parse().expect("a number");
    (rest[..length].to_vec(), &rest[length..])
}

fn unchunked(mut rest: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut content = Vec::new();
    loop {
        let line = rest.windows(2).position(|two| two == b"\r\n").expect("a size");
        let size = std::str::from_utf8(&rest[..line]).expect("digits");
        let size = usize::from_str_radix(size, 16).expect("a size");
        let data = &rest[line + 2..];
        assert_eq!(&data[size..size + 2], b"\r\n");
        content.extend_from_slice(&data[..size]);
        rest = &data[size + 2..];
        if size == 0 {
            return (content, rest);
        }
    }
}

fuzz_target!(|data: (&[u8], Vec<&[u8]>, u8)| {
    let (requests, programs, step) = data;
    let (limits, step) = (ConnectionLimits::default(), usize::from(step).max(1));
    let input = [requests, LAST].concat();
    let mut conversation = Conversation::new();
    let (mut out, mut sent) = (Vec::new(), Vec::new());
    let (mut from, mut end) = (0, 0);
    let mut programs = programs.into_iter();
    let mut is_last_asked = false;
    'connection: while end < input.len() {
        end = (end + step).min(input.len());
        loop {
            match conversation.next(&input[from..end], &limits) {
                ConversationEvent::NeedMore => break,
                ConversationEvent::Closed | ConversationEvent::Reject(_) => break 'connection,
                ConversationEvent::Body { consumed, .. } => from += consumed,
                ConversationEvent::Request { request, consumed } => {
                    from += consumed;
                    is_last_asked = from == input.len() && request.target.raw == b"/last";
                    let marked = [b"\n", MARK].concat();
                    let program = if is_last_asked { &marked } else { programs.next().unwrap_or_default() };
                    let is_new = request.version == Version::Http11 || request.keep_alive;
                    match relay(&request, program, step, &mut out) {
                        Sent::Ended => break 'connection,
                        whole if is_new => sent.push(whole),
                        _ => unreachable!("HTTP/1.0 that is not asked to stay ends"),
                    }
                }
            }
        }
    }
    let mut rest = &out[..];
    let mut content = Vec::new();
    for answer in &sent {
        let Sent::Whole { is_head } = *answer else { unreachable!("only whole answers are kept") };
        (content, rest) = read_answer(rest, is_head);
    }
    if is_last_asked && matches!(sent.last(), Some(Sent::Whole { is_head: false })) {
        assert_eq!((&content[..], rest), (MARK, &b""[..]), "the last answer is its request's own");
    }
});
