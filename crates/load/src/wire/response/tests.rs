//! Every answer, cut everywhere, must give the same result and the same content.

use super::head::{FIELDS_MAX, HEAD_BYTES_MAX};
use super::*;

#[derive(Default)]
struct Keep {
    heads: Vec<u16>,
    content: Vec<u8>,
}

impl AnswerSink for Keep {
    fn head(&mut self, head: &FinalHead<'_>) {
        self.heads.push(head.status);
    }
    fn content(&mut self, bytes: &[u8]) {
        self.content.extend_from_slice(bytes);
    }
}

/// Reads `pieces` as they arrive, and then the end of the connection. Returns the answers, the
/// violation, and the contents.
fn read(pieces: &[&[u8]], is_head: bool) -> (Vec<WholeAnswer>, Option<MalformedAnswer>, Vec<u8>) {
    let (mut reader, mut keep) = (AnswerReader::default(), Keep::default());
    let (mut answers, mut pending) = (Vec::new(), Vec::new());
    for piece in pieces {
        pending.extend_from_slice(piece);
        loop {
            match reader.read(&pending, is_head, &mut keep, &mut LastHead::default()) {
                Ok(progress) => {
                    pending.drain(..progress.consumed);
                    match progress.answer {
                        Some(answer) => answers.push(answer),
                        None => break,
                    }
                }
                Err(wrong) => return (answers, Some(wrong), keep.content),
            }
            if pending.is_empty() {
                break;
            }
        }
    }
    match reader.close() {
        Ok(last) => answers.extend(last),
        Err(wrong) => return (answers, Some(wrong), keep.content),
    }
    assert_eq!(keep.heads.len(), answers.len());
    (answers, None, keep.content)
}

fn check(bytes: &str, is_head: bool, expected: Result<&[(u16, &str, Reuse)], MalformedAnswer>) {
    let bytes = bytes.as_bytes();
    let whole = read(&[bytes], is_head);
    match expected {
        Err(wrong) => assert_eq!(whole.1, Some(wrong)),
        Ok(expected) => {
            assert_eq!(whole.1, None);
            let got: Vec<_> = whole.0.iter().map(|answer| (answer.status, answer.reuse)).collect();
            assert_eq!(got, expected.iter().map(|(status, _, reuse)| (*status, *reuse)).collect::<Vec<_>>());
            let content: String = expected.iter().map(|(_, content, _)| *content).collect();
            assert_eq!(String::from_utf8_lossy(&whole.2), content);
            let count: u64 = whole.0.iter().map(|answer| answer.content_bytes).sum();
            assert_eq!(count, content.len() as u64);
        }
    }
    for cut in 0..bytes.len() {
        assert_eq!(read(&[&bytes[..cut], &bytes[cut..]], is_head), whole, "cut at {cut}");
    }
    let single: Vec<_> = bytes.chunks(1).collect();
    assert_eq!(read(&single, is_head), whole, "byte by byte");
}

use Reuse::{Close, Keep as Kept};

#[test]
fn a_length() {
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n";
    check(text, false, Ok(&[(200, "abc", Kept), (404, "", Kept)]));
}

#[test]
fn chunks_of_several_sizes() {
    let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n";
    check(&text.repeat(2), false, Ok(&[(200, "abc0123456789", Kept), (200, "abc0123456789", Kept)]));
}

#[test]
fn until_the_connection_closes() {
    check("HTTP/1.1 200 OK\r\n\r\nall of it", false, Ok(&[(200, "all of it", Close)]));
    let coded = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nContent-Length: 1\r\n\r\nall";
    check(coded, false, Ok(&[(200, "all", Close)]));
}

#[test]
fn answers_without_content() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n";
    check(&head.repeat(2), true, Ok(&[(200, "", Kept), (200, "", Kept)]));
    let bare = "HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\nHTTP/1.1 204 None\r\n\r\n";
    check(bare, false, Ok(&[(304, "", Kept), (204, "", Kept)]));
}

#[test]
fn interim_answers_are_passed_over() {
    let text = "HTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
    check(text, false, Ok(&[(200, "x", Kept)]));
    check("HTTP/1.1 101 Switch\r\nUpgrade: h2c\r\n\r\n", false, Err(MalformedAnswer::Upgrade));
}

#[test]
fn response_decides_reuse_of_connection() {
    check("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", false, Ok(&[(200, "x", Close)]));
    let kept = "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\nx";
    check(kept, false, Ok(&[(200, "x", Kept)]));
    let closed = "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 1\r\n\r\nx";
    check(closed, false, Ok(&[(200, "x", Close)]));
}

#[test]
fn malformed_response_is_reported() {
    check("HTTP/1.1 abc\r\n\r\n", false, Err(MalformedAnswer::Head));
    check("SSH-2.0-OpenSSH\r\n", false, Err(MalformedAnswer::Head));
    check(
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        false,
        Err(MalformedAnswer::Length),
    );
    check("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", false, Err(MalformedAnswer::Length));
    check(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        false,
        Err(MalformedAnswer::Chunks),
    );
    check("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", false, Err(MalformedAnswer::Truncated));
    check(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
        false,
        Err(MalformedAnswer::Truncated),
    );
}

/// A known head is not parsed again and has the same meaning. Other heads between, cuts, and the
/// answer to a HEAD make no difference.
#[test]
fn a_head_seen_before_means_the_same() {
    let texts = [
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nabcdefghijklmnopqrstuvwxyz0123",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        "HTTP/1.1 304 Same\r\nContent-Length: 3\r\n\r\n",
        "HTTP/1.1 100 C\r\n\r\nHTTP/1.1 204 None\r\nConnection: close\r\n\r\n",
    ];
    let whole = |text: &str, cut: usize, is_head: bool, seen: &mut LastHead| {
        let (mut reader, mut consumed) = (AnswerReader::default(), 0);
        for end in [cut, text.len()] {
            let input = &text.as_bytes()[consumed..end];
            let progress = reader.read(input, is_head, &mut Discard, seen).unwrap();
            consumed += progress.consumed;
            if let Some(answer) = progress.answer {
                return (consumed, answer);
            }
        }
        unreachable!("the answer is whole")
    };
    let mut seen = LastHead::default();
    for (first, second) in texts.iter().flat_map(|first| texts.iter().map(move |second| (first, second))) {
        for (text, is_head) in
            [(first, false), (first, true), (second, false), (second, true), (second, false)]
        {
            for cut in 0..=text.len() {
                let fresh = whole(text, cut, is_head, &mut LastHead::default());
                assert_eq!(whole(text, cut, is_head, &mut seen), fresh, "{text:?} cut at {cut}");
            }
        }
    }
}

#[test]
fn a_head_without_end_is_given_up() {
    let mut endless = b"HTTP/1.1 200 OK\r\nX: ".to_vec();
    endless.resize(HEAD_BYTES_MAX + 1, b'x');
    let wrong = AnswerReader::default().read(&endless, false, &mut Discard, &mut LastHead::default());
    assert_eq!(wrong, Err(MalformedAnswer::HeadTooLong));
}

/// Regression: a head that arrived complete had no maximum size.
#[test]
fn whole_heads_have_bounds_too() {
    let read = |head: String| {
        let read =
            AnswerReader::default().read(head.as_bytes(), true, &mut Discard, &mut LastHead::default());
        read.map(|progress| progress.consumed)
    };
    let bare = "HTTP/1.1 200 OK\r\nX: \r\n\r\n".len();
    let long = |bytes: usize| format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(bytes - bare));
    assert_eq!(read(long(HEAD_BYTES_MAX)), Ok(HEAD_BYTES_MAX));
    assert_eq!(read(long(HEAD_BYTES_MAX + 1)), Err(MalformedAnswer::HeadTooLong));
    let fields = |count: usize| format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: 1\r\n".repeat(count));
    assert!(read(fields(FIELDS_MAX)).is_ok());
    assert_eq!(read(fields(FIELDS_MAX + 1)), Err(MalformedAnswer::TooManyFields));
}

#[test]
fn fields_are_found_in_any_case() {
    struct Find(Option<Vec<u8>>);
    impl AnswerSink for Find {
        fn head(&mut self, head: &FinalHead<'_>) {
            self.0 = head.field("etag").map(<[u8]>::to_vec);
        }
        fn content(&mut self, _: &[u8]) {}
    }
    let mut find = Find(None);
    let text = b"HTTP/1.1 304 Same\r\nETag: \"x\"\r\n\r\n";
    AnswerReader::default().read(text, false, &mut find, &mut LastHead::default()).unwrap();
    assert_eq!(find.0.as_deref(), Some(&b"\"x\""[..]));
}
