//! The machine's own rules: counting, ending, and how often the machine parses. The tests of its
//! verdicts are in `tests/`.

use super::*;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

#[test]
fn the_last_request_allowed_says_so() {
    let limits = ConnectionLimits { requests_per_connection: 2, ..ConnectionLimits::default() };
    let mut conversation = Conversation::new();
    for keeps in [true, false] {
        let ConversationEvent::Request { request, consumed } = conversation.next(GET, &limits) else {
            panic!("no request")
        };
        assert_eq!((request.keep_alive, consumed), (keeps, GET.len()));
    }
    assert_eq!(conversation.next(GET, &limits), ConversationEvent::Closed);
    assert_eq!(conversation.requests(), 2);
}

#[test]
fn resumed_conversation_continues_count() {
    let limits = ConnectionLimits { requests_per_connection: 3, ..ConnectionLimits::default() };
    let mut conversation = Conversation::after(2);
    assert!(!conversation.is_amid_request() && conversation.requests() == 2);
    assert!(
        matches!(conversation.next(GET, &limits), ConversationEvent::Request { request, .. } if !request.keep_alive)
    );
    assert_eq!(conversation.next(GET, &limits), ConversationEvent::Closed);
}

#[test]
fn idle_and_amid_a_request_are_told_apart() {
    let limits = ConnectionLimits::default();
    let mut conversation = Conversation::new();
    assert!(!conversation.is_amid_request());
    assert_eq!(conversation.next(b"", &limits), ConversationEvent::NeedMore);
    assert!(!conversation.is_amid_request());
    assert_eq!(conversation.next(b"G", &limits), ConversationEvent::NeedMore);
    assert!(conversation.is_amid_request());
    let post = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n";
    assert!(matches!(conversation.next(post, &limits), ConversationEvent::Request { .. }));
    assert!(conversation.is_amid_request());
    assert_eq!(conversation.next(b"", &limits), ConversationEvent::NeedMore);
    assert_eq!(
        conversation.next(b"abc", &limits),
        ConversationEvent::Body { consumed: 2, data: 0..2, done: true }
    );
    assert!(!conversation.is_amid_request());
}

#[test]
fn a_closed_conversation_reads_nothing() {
    let limits = ConnectionLimits::default();
    let mut conversation = Conversation::new();
    conversation.close();
    assert_eq!(conversation.next(GET, &limits), ConversationEvent::Closed);
    let mut refused = Conversation::new();
    assert_eq!(refused.next(b"\x16\x03", &limits), ConversationEvent::Reject(Rejection::Method));
    assert_eq!(refused.next(GET, &limits), ConversationEvent::Closed);
}

/// Regression: a head that arrived byte by byte was parsed again at each byte. A head of 32 KiB
/// cost half a gigabyte of scanning.
#[test]
fn a_head_that_drips_is_not_parsed_at_each_byte() {
    let limits = ConnectionLimits::default();
    let head = [b"GET / HTTP/1.1\r\nHost: h\r\nX: ".as_slice(), &[b'a'; 32_000]].concat();
    let (mut seen, mut place) = (0, HeadPart::Method(0));
    let mut bytes_parsed = 0;
    for len in 1..=head.len() {
        if !is_still_open(&head[..len], &mut seen, &mut place, &limits) {
            bytes_parsed += len;
            (seen, place) = (len, HeadPart::of(&head[..len]));
        }
    }
    assert!(bytes_parsed <= 10 * head.len(), "{bytes_parsed}");
}

#[test]
fn a_full_buffer_is_always_judged() {
    let limits = ConnectionLimits { header_bytes: 64, ..ConnectionLimits::default() };
    let head = [b"GET / HTTP/1.1\r\nHost: h\r\nX: ".as_slice(), &[b'a'; 64]].concat();
    let mut conversation = Conversation::new();
    assert_eq!(conversation.next(&head[..63], &limits), ConversationEvent::NeedMore);
    assert_eq!(conversation.next(&head[..64], &limits), ConversationEvent::Reject(Rejection::HeadTooLong));
}

/// Regression: the bytes after an overlong method were not checked before a line end. The answer
/// was 408 after a while, instead of 400.
#[test]
fn bad_method_is_refused_however_it_is_cut() {
    let limits = ConnectionLimits::default();
    let bytes = [b"G".as_slice(), &[b'J'; 29], b"\0"].concat();
    for cut in 1..bytes.len() {
        let mut conversation = Conversation::new();
        assert_eq!(conversation.next(&bytes[..cut], &limits), ConversationEvent::NeedMore);
        assert_eq!(conversation.next(&bytes, &limits), ConversationEvent::Reject(Rejection::Method), "{cut}");
    }
}

/// Regression: the answer was 413 for every target, and the log had nothing of the request.
#[test]
fn content_over_the_limit_is_judged_behind_its_request() {
    let limits = ConnectionLimits { body_bytes: 3, ..ConnectionLimits::default() };
    let head = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n";
    let mut conversation = Conversation::new();
    let ConversationEvent::Request { request, consumed } = conversation.next(head, &limits) else {
        panic!("no request")
    };
    assert_eq!((request.keep_alive, consumed), (false, head.len()));
    assert!(conversation.is_amid_body());
    assert_eq!(conversation.next(b"", &limits), ConversationEvent::Reject(Rejection::BodyTooLong));
    assert_eq!(conversation.next(GET, &limits), ConversationEvent::Closed);
}
