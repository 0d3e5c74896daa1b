//! Bodies against a plain decoder that sees everything at once, and each limit to the byte.

use proptest::prelude::*;

use super::*;
use crate::scan;

/// Reads a body that arrives in `pieces`; returns the content and the bytes consumed, or `None` if
/// more is needed.
fn read<'a>(
    framing: Framing,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    limits: &ConnectionLimits,
) -> Result<Option<(Vec<u8>, usize)>, Rejection> {
    let mut reader = BodyReader::new(framing, limits)?;
    let (mut content, mut consumed) = (Vec::new(), 0);
    for mut piece in pieces {
        while !piece.is_empty() && !reader.is_done() {
            let step = reader.read(piece)?;
            assert!(step.consumed > 0, "no progress");
            content.extend_from_slice(&piece[step.data]);
            consumed += step.consumed;
            piece = &piece[step.consumed..];
        }
    }
    Ok(reader.is_done().then_some((content, consumed)))
}

/// Chunked framing by splitting lines, without states: the reference for the machine. `None`: more
/// input is needed. The kind of an error is not reported.
fn decode_plainly(input: &[u8]) -> Result<Option<(Vec<u8>, usize)>, ()> {
    let mut content = Vec::new();
    let mut at = 0;
    loop {
        let Some(line) = take_line(input, &mut at)? else { return Ok(None) };
        let size = size_of_line(line)?;
        if size == 0 {
            break;
        }
        let Some(chunk) = input.get(at..at + size) else {
            return Ok(None);
        };
        content.extend_from_slice(chunk);
        at += size;
        match &input[at..] {
            [b'\r', b'\n', ..] => at += 2,
            [] | [b'\r'] => return Ok(None),
            _ => return Err(()),
        }
    }
    loop {
        match take_line(input, &mut at)? {
            None => return Ok(None),
            Some(b"") => return Ok(Some((content, at))),
            Some(line) => check_trailer(line)?,
        }
    }
}

/// Takes a line that ends in CRLF. A CR or LF elsewhere is an error, and so is a line that no
/// continuation can make valid.
fn take_line<'a>(input: &'a [u8], at: &mut usize) -> Result<Option<&'a [u8]>, ()> {
    let rest = &input[*at..];
    match rest.iter().position(|&b| b == b'\r' || b == b'\n').map(|end| (end, &rest[end..])) {
        None | Some((_, [b'\r'])) => Ok(None),
        Some((end, [b'\r', b'\n', ..])) => {
            *at += end + 2;
            Ok(Some(&rest[..end]))
        }
        Some(_) => Err(()),
    }
}

/// Knows extensions only in the form without white space and quotes.
fn size_of_line(line: &[u8]) -> Result<usize, ()> {
    let text = std::str::from_utf8(line).map_err(drop)?;
    let (size, extensions) = text.split_once(';').map_or((text, None), |(size, rest)| (size, Some(rest)));
    let is_token = |text: &str| !text.is_empty() && text.bytes().all(scan::is_token);
    for extension in extensions.into_iter().flat_map(|text| text.split(';')) {
        let (name, value) = extension.split_once('=').unwrap_or((extension, "x"));
        if !is_token(name) || !is_token(value) {
            return Err(());
        }
    }
    if size.len() > 16 || !size.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(());
    }
    usize::from_str_radix(size, 16).map_err(drop)
}

fn check_trailer(line: &[u8]) -> Result<(), ()> {
    let colon = line.iter().position(|&b| b == b':').ok_or(())?;
    let valid = colon > 0
        && line[..colon].iter().all(|&b| scan::is_token(b))
        && line[colon..].iter().all(|&b| scan::is_text(b));
    valid.then_some(()).ok_or(())
}

fn encode(chunks: &[Vec<u8>], extension: &str, trailers: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in chunks {
        out.extend_from_slice(format!("{:x}{extension}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("0{extension}\r\n{trailers}\r\n").as_bytes());
    out
}

fn chunks() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6)
}

fn cut<'a>(input: &'a [u8], at: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<_> = at.iter().map(|index| index.index(input.len() + 1)).collect();
    places.extend([0, input.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &input[pair[0]..pair[1]]).collect()
}

proptest! {
    #![proptest_config(crate::fixed_cases(1000))]

    #[test]
    fn encoded_body_reads_back(
        chunks in chunks(),
        extension in prop::sample::select(vec!["", ";a", ";a=b", " ;\ta = \"q\\\";\" ;c"]),
        trailers in prop::sample::select(vec!["", "A: b\r\n", "A:\r\nB: c d\te\r\n"]),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut input = encode(&chunks, extension, trailers);
        let len = input.len();
        input.extend_from_slice(b"GET / HTTP/1.1\r\n");
        let expected = Ok(Some((chunks.concat(), len)));
        let limits = ConnectionLimits::default();
        prop_assert_eq!(read(Framing::Chunked, cut(&input, &cuts), &limits), expected.clone());
        prop_assert_eq!(read(Framing::Chunked, input.chunks(1), &limits), expected);
    }

    #[test]
    fn a_damaged_encoding_is_judged_as_the_plain_decoder_judges_it(
        chunks in chunks(),
        damages in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(b"\r\n\0 :;=0aF1x".to_vec()), any::<bool>()), 1..4),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut input = encode(&chunks, ";a=b", "A: b\r\n");
        for (index, byte, insert) in damages {
            let at = index.index(input.len());
            if insert { input.insert(at, byte) } else { input[at] = byte }
        }
        let limits = ConnectionLimits::default();
        let whole = read(Framing::Chunked, [&input[..]], &limits);
        prop_assert_eq!(read(Framing::Chunked, cut(&input, &cuts), &limits), whole.clone());
        prop_assert_eq!(read(Framing::Chunked, input.chunks(1), &limits), whole.clone());
        // The machine may report an error sooner, in an unfinished line. The machine also accepts
        // white space in extensions.
        match (whole, decode_plainly(&input)) {
            (Ok(Some(ours)), Ok(Some(theirs))) => prop_assert_eq!(ours, theirs),
            (Ok(None), Ok(None)) | (Err(_), Err(()) | Ok(None)) => {}
            (Ok(_), Err(())) => prop_assert!(input.contains(&b' ')),
            (ours, theirs) => prop_assert!(false, "{:?} but {:?} for {}", ours, theirs, input.escape_ascii()),
        }
    }

    #[test]
    fn a_length_is_that_many_bytes(
        content in prop::collection::vec(any::<u8>(), 1..80),
        behind in prop::collection::vec(any::<u8>(), 0..20),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let input = [&content[..], &behind[..]].concat();
        let framing = Framing::Length(content.len() as u64);
        let expected = Ok(Some((content.clone(), content.len())));
        prop_assert_eq!(read(framing, cut(&input, &cuts), &ConnectionLimits::default()), expected);
        prop_assert_eq!(read(framing, [&content[1..]], &ConnectionLimits::default()), Ok(None));
    }
}

#[test]
fn no_content_ends_at_once() {
    for framing in [Framing::None, Framing::Length(0)] {
        let mut reader = BodyReader::new(framing, &ConnectionLimits::default()).unwrap();
        assert!(reader.is_done());
        assert_eq!(reader.read(b"GET"), Ok(BodyStep { consumed: 0, data: 0..0, done: true }));
    }
}

#[test]
fn the_content_limit_is_exact() {
    let limits = ConnectionLimits { body_bytes: 10, ..ConnectionLimits::default() };
    assert!(BodyReader::new(Framing::Length(10), &limits).is_ok());
    assert_eq!(BodyReader::new(Framing::Length(11), &limits).err(), Some(Rejection::BodyTooLong));
    let chunked = |input: &'static [u8]| read(Framing::Chunked, [input], &limits);
    assert!(chunked(b"a\r\n0123456789\r\n0\r\n\r\n").unwrap().is_some());
    assert_eq!(chunked(b"b\r\n"), Err(Rejection::BodyTooLong));
    assert_eq!(chunked(b"9\r\n012345678\r\n2\r\n"), Err(Rejection::BodyTooLong));
    assert_eq!(chunked(b"1\r\nx\r\nffffffffffffffff\r\n"), Err(Rejection::BodyTooLong));
}

#[test]
fn the_extension_limit_is_exact_and_covers_all_chunks() {
    let limits = ConnectionLimits { chunk_extension_bytes: 8, ..ConnectionLimits::default() };
    let chunked = |input: &'static [u8]| read(Framing::Chunked, [input], &limits);
    assert!(chunked(b"1;abc\r\nx\r\n0;abc\r\n\r\n").unwrap().is_some());
    assert_eq!(chunked(b"1;abc\r\nx\r\n0;abcd\r\n"), Err(Rejection::ChunkExtensionsTooLong));
}

#[test]
fn the_trailer_limit_is_exact() {
    let limits = ConnectionLimits { trailer_bytes: 12, ..ConnectionLimits::default() };
    let chunked = |input: &'static [u8]| read(Framing::Chunked, [input], &limits);
    assert!(chunked(b"0\r\nA: b\r\nC: d\r\n\r\n").unwrap().is_some());
    assert_eq!(chunked(b"0\r\nA: b\r\nC: de\r\n"), Err(Rejection::TrailersTooLong));
}
