//! Any cut gives the same events; no bytes cause a panic; a record that no application may send is
//! a fault.

use super::*;
use crate::{fixed_cases, limits::WHOLE_BYTES_MAX, responder};
use proptest::prelude::*;

const ID: RequestId = RequestId::FIRST;

/// An event with its bytes; adjacent pieces of a stream are merged.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SeenEvent {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Values(Vec<u8>),
    UnknownKind(u8),
    End(u32, ProtocolStatus),
    Fault(FastcgiFault),
}

/// Reads bytes that arrive in these pieces.
fn read_in<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<SeenEvent> {
    let mut response = FastcgiResponse::new(ID);
    let (mut buffer, mut seen) = (Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match response.read(&buffer) {
                Ok(None) => break,
                Ok(Some(ResponseStep { consumed, event })) => {
                    assert!(consumed > 0, "every step goes on");
                    note(&mut seen, event, &buffer);
                    buffer.drain(..consumed);
                }
                Err(fault) => {
                    seen.push(SeenEvent::Fault(fault));
                    return seen;
                }
            }
        }
    }
    seen
}

fn note(seen: &mut Vec<SeenEvent>, event: Option<ResponseEvent>, input: &[u8]) {
    match (event, seen.last_mut()) {
        (None, _) => {}
        (Some(ResponseEvent::Stdout(data)), Some(SeenEvent::Stdout(bytes)))
        | (Some(ResponseEvent::Stderr(data)), Some(SeenEvent::Stderr(bytes))) => {
            bytes.extend_from_slice(&input[data])
        }
        (Some(ResponseEvent::Stdout(data)), _) => seen.push(SeenEvent::Stdout(input[data].to_vec())),
        (Some(ResponseEvent::Stderr(data)), _) => seen.push(SeenEvent::Stderr(input[data].to_vec())),
        (Some(ResponseEvent::Values(data)), _) => seen.push(SeenEvent::Values(input[data].to_vec())),
        (Some(ResponseEvent::UnknownKind(number)), _) => seen.push(SeenEvent::UnknownKind(number)),
        (Some(ResponseEvent::End { app_status, protocol_status }), _) => {
            seen.push(SeenEvent::End(app_status, protocol_status));
        }
    }
}

fn record(kind: u8, id: u16, content: &[u8], padding: u8) -> Vec<u8> {
    let [id_high, id_low] = id.to_be_bytes();
    let [length_high, length_low] = u16::try_from(content.len()).expect("short").to_be_bytes();
    let mut bytes = vec![1, kind, id_high, id_low, length_high, length_low, padding, 0];
    bytes.extend_from_slice(content);
    bytes.extend(std::iter::repeat_n(0xAA, padding.into()));
    bytes
}

#[test]
fn an_answer_is_read_whole_and_at_every_cut() {
    let bytes = [
        record(7, 1, b"PHP Warning", 5),
        record(6, 1, b"Content-Type: text/plain\r\n\r\n", 4),
        record(77, 1, b"from the future", 1),
        record(6, 1, b"hello", 0),
        record(10, 0, b"\x0f\x01FCGI_MPXS_CONNS0", 0),
        record(11, 0, &[9, 0, 0, 0, 0, 0, 0, 0], 0),
        record(6, 1, b" world", 255),
        record(6, 1, b"", 3),
        record(7, 1, b"", 0),
        record(3, 1, &[0, 0, 1, 2, 0, 0, 0, 0], 7),
    ]
    .concat();
    let expected = [
        SeenEvent::Stderr(b"PHP Warning".into()),
        SeenEvent::Stdout(b"Content-Type: text/plain\r\n\r\nhello".into()),
        SeenEvent::Values(b"\x0f\x01FCGI_MPXS_CONNS0".into()),
        SeenEvent::UnknownKind(9),
        SeenEvent::Stdout(b" world".into()),
        SeenEvent::End(258, ProtocolStatus::Complete),
    ];
    assert_eq!(read_in([&bytes[..]]), expected);
    assert_eq!(read_in(bytes.chunks(1)), expected);
    for cut in 0..bytes.len() {
        assert_eq!(read_in([&bytes[..cut], &bytes[cut..]]), expected, "cut at {cut}");
    }
}

#[test]
fn it_is_over_when_the_end_and_its_padding_have_come() {
    let bytes = record(3, 1, &[0; 8], 2);
    let mut response = FastcgiResponse::new(ID);
    let step = response.read(&bytes).expect("no fault").expect("the record");
    assert!(!response.is_over(), "padding is left");
    response.read(&bytes[step.consumed..]).expect("no fault").expect("the padding");
    assert!(response.is_over());
}

#[test]
fn faults() {
    let end = record(3, 1, &[0; 8], 0);
    for (bytes, fault) in [
        (b"HTTP/1.1 400 Bad Request\r\n".to_vec(), FastcgiFault::Version(b'H')),
        (record(6, 2, b"late", 0), FastcgiFault::OtherRequest { expected: ID, got: 2 }),
        (record(6, 0, b"x", 0), FastcgiFault::OtherRequest { expected: ID, got: 0 }),
        (record(1, 1, &[0; 8], 0), FastcgiFault::OutOfPlace(RecordKind::BeginRequest)),
        (record(5, 1, b"x", 0), FastcgiFault::OutOfPlace(RecordKind::Stdin)),
        (
            [record(6, 1, b"", 0), record(6, 1, b"x", 0)].concat(),
            FastcgiFault::OutOfPlace(RecordKind::Stdout),
        ),
        ([end.clone(), end].concat(), FastcgiFault::OutOfPlace(RecordKind::EndRequest)),
        (record(3, 1, &[0; 7], 0), FastcgiFault::Length { kind: RecordKind::EndRequest, bytes: 7 }),
        (record(11, 0, b"", 0), FastcgiFault::Length { kind: RecordKind::UnknownType, bytes: 0 }),
        (
            record(10, 0, &[0; WHOLE_BYTES_MAX + 1], 0),
            FastcgiFault::Length { kind: RecordKind::GetValuesResult, bytes: WHOLE_BYTES_MAX + 1 },
        ),
    ] {
        assert_eq!(read_in([&bytes[..]]).last(), Some(&SeenEvent::Fault(fault)), "{bytes:?}");
        assert_eq!(read_in(bytes.chunks(1)).last(), Some(&SeenEvent::Fault(fault)), "{bytes:?}");
    }
}

#[test]
fn how_a_request_can_end() {
    for (number, status) in [
        (0, ProtocolStatus::Complete),
        (1, ProtocolStatus::CannotMultiplex),
        (2, ProtocolStatus::Overloaded),
        (3, ProtocolStatus::UnknownRole),
        (4, ProtocolStatus::Unknown(4)),
    ] {
        let bytes = record(3, 1, &[0, 0, 0, 0, number, 0, 0, 0], 0);
        assert_eq!(read_in([&bytes[..]]), [SeenEvent::End(0, status)]);
    }
}

/// Mostly valid records, so that the reader gets beyond the first.
fn some_record() -> impl Strategy<Value = Vec<u8>> {
    let content = proptest::collection::vec(any::<u8>(), 0..40);
    let kind = prop_oneof![6 => 6u8..=7, 1 => 3u8..=3, 1 => any::<u8>()];
    let id = prop_oneof![9 => Just(1u16), 1 => 0u16..3];
    (kind, id, content, 0u8..20).prop_map(|(kind, id, content, padding)| {
        let content = if kind == 3 { vec![0; 8] } else { content };
        record(kind, id, &content, padding)
    })
}

proptest! {
    #![proptest_config(fixed_cases(300))]

    #[test]
    fn events_do_not_depend_on_cuts(
        records in proptest::collection::vec(some_record(), 0..8),
        damage in proptest::option::of((any::<prop::sample::Index>(), any::<u8>())),
        cuts in proptest::collection::vec(1usize..50, 1..20),
    ) {
        let mut bytes = records.concat();
        if let Some((place, byte)) = damage && !bytes.is_empty() {
            let at = place.index(bytes.len());
            bytes[at] = byte;
        }
        let whole = read_in([&bytes[..]]);
        prop_assert_eq!(&read_in(bytes.chunks(1)), &whole);
        let (mut rest, mut pieces) = (&bytes[..], Vec::new());
        for &count in cuts.iter().cycle() {
            let (piece, later) = rest.split_at(count.min(rest.len()));
            pieces.push(piece);
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(&read_in(pieces), &whole);
    }

    #[test]
    fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read_in([&bytes[..]]);
        // Beyond the version byte.
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() { *first = 1 }
        read_in([&bytes[..]]);
    }

    #[test]
    fn written_response_reads_back(output in proptest::collection::vec(any::<u8>(), 0..300), times in 0usize..700) {
        let output = output.repeat(times);
        let mut bytes = Vec::new();
        responder::stdout(&mut bytes, ID, &output);
        responder::end(&mut bytes, ID, 7);
        let mut expected = vec![SeenEvent::End(7, ProtocolStatus::Complete)];
        if !output.is_empty() { expected.insert(0, SeenEvent::Stdout(output)) }
        prop_assert!(read_in([&bytes[..]]) == expected);
    }
}
