//! Framing, by version, length and method.

use crate::Version::{self, Http10, Http11};
use crate::gateway::body::{Body, BodyFraming, ContentEnd, ContentPiece, chunk_header};
use crate::gateway::{HeadLimits, HeadReader, ResponseHead};
use crate::response::PageContent::{self, Omitted, Sent};

fn head(text: &str) -> ResponseHead {
    match HeadReader::new(HeadLimits::default()).read(text.as_bytes()) {
        Ok(Some((crate::gateway::ProgramAnswer::Document(head), _))) => head,
        other => panic!("{other:?}"),
    }
}

#[test]
fn framing_follows_from_length_version_and_method() {
    let plain = "Content-Type: a/b\n\n";
    let long = "Content-Type: a/b\nContent-Length: 5\n\n";
    let cases: [(&str, Version, PageContent, BodyFraming); 9] = [
        (plain, Http11, Sent, BodyFraming::Chunked),
        (plain, Http10, Sent, BodyFraming::UntilClose),
        (plain, Http11, Omitted, BodyFraming::None),
        (long, Http11, Sent, BodyFraming::Length(5)),
        (long, Http10, Sent, BodyFraming::Length(5)),
        (long, Http10, Omitted, BodyFraming::None),
        ("Status: 204\n\n", Http11, Sent, BodyFraming::None),
        ("Status: 304\nContent-Length: 5\n\n", Http11, Sent, BodyFraming::None),
        ("Status: 404\n\n", Http11, Sent, BodyFraming::Chunked),
    ];
    for (text, version, content, framing) in cases {
        assert_eq!(Body::new(&head(text), version, content).framing(), framing, "{text:?} {version:?}");
    }
}

#[test]
fn a_program_is_held_to_its_length() {
    let mut body = Body::new(&head("Content-Type: a/b\nContent-Length: 5\n\n"), Http11, Sent);
    assert_eq!((body.piece(3), body.end()), (ContentPiece::Plain(3), ContentEnd::Short));
    assert_eq!((body.piece(0), body.is_complete()), (ContentPiece::Dropped, false));
    assert_eq!((body.piece(9), body.end()), (ContentPiece::Plain(2), ContentEnd::Complete));
    assert_eq!((body.piece(1), body.sent(), body.is_complete()), (ContentPiece::Dropped, 5, true));
}

#[test]
fn closing_ends_body_without_length() {
    let plain = head("Content-Type: a/b\n\n");
    let mut chunked = Body::new(&plain, Http11, Sent);
    assert_eq!(
        (chunked.piece(3), chunked.piece(0), chunked.end()),
        (ContentPiece::Chunk, ContentPiece::Dropped, ContentEnd::LastChunk)
    );
    let mut old = Body::new(&plain, Http10, Sent);
    assert_eq!((old.piece(3), old.end(), old.sent()), (ContentPiece::Plain(3), ContentEnd::Close, 3));
    let mut none = Body::new(&plain, Http11, Omitted);
    assert_eq!(
        (none.piece(3), none.end(), none.is_complete()),
        (ContentPiece::Dropped, ContentEnd::Complete, true)
    );
}

#[test]
fn chunk_sizes_are_hexadecimal() {
    for bytes in [1, 9, 10, 15, 16, 255, 256, 4096, 65_535, 0xABC_DEF0, usize::MAX] {
        let mut out = Vec::new();
        chunk_header(&mut out, bytes);
        assert_eq!(String::from_utf8(out).unwrap(), format!("{bytes:X}\r\n"));
    }
}
