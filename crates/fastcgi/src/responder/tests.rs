//! A client's messages arrive on the other side, for any cut of the bytes.

use super::*;
use crate::{fixed_cases, pairs, records::HEADER_BYTES, request};
use proptest::prelude::*;

type NamePair = (Vec<u8>, Vec<u8>);

/// A whole request from the view of the responder.
#[derive(Debug, Default, PartialEq, Eq)]
struct SeenRequest {
    id: Option<RequestId>,
    persistence: Option<RequestPersistence>,
    params: Option<Vec<NamePair>>,
    stdin: Vec<u8>,
    stdin_ended: bool,
    aborted: bool,
    asked: Vec<NamePair>,
}

fn owned(bytes: &[u8]) -> Vec<NamePair> {
    pairs::read(bytes).map(|pair| pair.expect("whole")).map(|(n, v)| (n.to_vec(), v.to_vec())).collect()
}

fn read_in(bytes: &[u8], at_once: usize) -> Result<SeenRequest, FastcgiFault> {
    let (mut requests, mut seen, mut buffer) = (RequestReader::default(), SeenRequest::default(), Vec::new());
    for piece in bytes.chunks(at_once) {
        buffer.extend_from_slice(piece);
        while let Some(RequestStep { consumed, event }) = requests.read(&buffer)? {
            match event {
                None => {}
                Some(RequestEvent::Begin { id, is_responder, persistence }) => {
                    assert!(is_responder);
                    seen.id = Some(id);
                    seen.persistence = Some(persistence);
                }
                Some(RequestEvent::Params(params)) => seen.params = Some(owned(&params)),
                Some(RequestEvent::Stdin(data)) => seen.stdin.extend_from_slice(&buffer[data]),
                Some(RequestEvent::StdinEnd) => seen.stdin_ended = true,
                Some(RequestEvent::Abort) => seen.aborted = true,
                Some(RequestEvent::GetValues(data)) => seen.asked = owned(&buffer[data]),
            }
            buffer.drain(..consumed);
        }
    }
    Ok(seen)
}

fn write(id: RequestId, persistence: RequestPersistence, params: &[NamePair], stdin: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    request::begin(&mut bytes, id, persistence);
    let mut writer = request::Params::new(&mut bytes, id);
    for (name, value) in params {
        writer.pair(name, value);
    }
    writer.finish();
    request::stdin(&mut bytes, id, stdin);
    request::end_stdin(&mut bytes, id);
    bytes
}

/// Pairs that fill exactly `total` bytes.
fn params_of(total: usize) -> Vec<NamePair> {
    let name = b"NAME".to_vec();
    // One byte for the name's length, four for the value's.
    vec![(name.clone(), vec![b'v'; total - name.len() - 5])]
}

#[test]
fn parameters_around_the_bounds_of_records_come_back() {
    for total in [200, CONTENT_BYTES_MAX - 1, CONTENT_BYTES_MAX, CONTENT_BYTES_MAX + 1, PARAMS_BYTES_MAX] {
        let params = params_of(total);
        let seen = read_in(&write(RequestId::FIRST, RequestPersistence::Keep, &params, b""), 4096)
            .expect("no fault");
        assert!(seen.params.as_ref() == Some(&params), "{total} bytes");
        assert!(seen.stdin_ended && seen.stdin.is_empty());
    }
}

/// The contents of the records of parameters.
fn params_records(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() {
        let (content, behind) = rest.split_at(usize::from(u16::from_be_bytes([header[4], header[5]])));
        if header[1] == RecordKind::Params.number() {
            records.push(content);
        }
        bytes = behind;
    }
    records
}

/// Regression: PHP reads the parameters of each record by themselves, and closed the connection
/// when a record ended within a parameter.
#[test]
fn parameter_begins_a_record_if_it_does_not_fit() {
    for first in [1, 40_000, CONTENT_BYTES_MAX - 9, CONTENT_BYTES_MAX - 10, CONTENT_BYTES_MAX - 11] {
        // With the lengths, the first pair has nine bytes more than its value.
        let params = [
            (b"NAME".to_vec(), vec![b'v'; first]),
            (b"B".to_vec(), vec![]),
            (b"C".to_vec(), vec![b'w'; 40_000]),
        ];
        assert!(params.iter().all(|(name, value)| request::fits_record(name, value)), "{first}");
        let bytes = write(RequestId::FIRST, RequestPersistence::Keep, &params, b"");
        let records = params_records(&bytes);
        let alone: Vec<NamePair> = records.iter().flat_map(|record| owned(record)).collect();
        assert!(alone == params, "{first}");
        assert_eq!(records.last().map(|record| record.len()), Some(0), "{first}");
    }
    let longer = vec![b'v'; CONTENT_BYTES_MAX - 8];
    assert!(request::fits_record(b"NAME", &longer[1..]) && !request::fits_record(b"NAME", &longer));
}

#[test]
fn too_many_parameters_are_a_fault() {
    let bytes = write(RequestId::FIRST, RequestPersistence::Keep, &params_of(PARAMS_BYTES_MAX + 1), b"");
    assert_eq!(read_in(&bytes, 4096), Err(FastcgiFault::ParamsTooLong));
}

#[test]
fn no_parameters_are_an_end_at_once() {
    let seen = read_in(&write(RequestId::FIRST, RequestPersistence::Close, &[], b""), 1).expect("no fault");
    assert_eq!(seen.params, Some(Vec::new()));
    assert_eq!(seen.persistence, Some(RequestPersistence::Close));
}

#[test]
fn abort_and_values() {
    let mut bytes = Vec::new();
    request::abort(&mut bytes, RequestId::FIRST);
    request::get_values(&mut bytes, &request::VALUE_NAMES);
    let seen = read_in(&bytes, 1).expect("no fault");
    assert!(seen.aborted);
    let names: Vec<_> = request::VALUE_NAMES.iter().map(|name| (name.as_bytes().to_vec(), vec![])).collect();
    assert_eq!(seen.asked, names);
}

#[test]
fn record_from_application_is_refused() {
    let mut bytes = Vec::new();
    stdout(&mut bytes, RequestId::FIRST, b"x");
    assert_eq!(read_in(&bytes, 1), Err(FastcgiFault::OutOfPlace(RecordKind::Stdout)));
}

#[test]
fn numbers_go_around_without_zero() {
    let mut id = RequestId::FIRST;
    for _ in 0..u16::MAX {
        id = id.next();
    }
    assert_eq!(id, RequestId::FIRST);
}

proptest! {
    #![proptest_config(fixed_cases(200))]

    #[test]
    fn a_request_comes_back(
        params in proptest::collection::vec(
            (proptest::collection::vec(any::<u8>(), 0..200), proptest::collection::vec(any::<u8>(), 0..300)), 0..20),
        stdin in proptest::collection::vec(any::<u8>(), 0..500),
        times in 0usize..300,
        at_once in 1usize..5000,
    ) {
        let id = RequestId::FIRST.next();
        let stdin = stdin.repeat(times);
        let seen = read_in(&write(id, RequestPersistence::Keep, &params, &stdin), at_once).expect("no fault");
        prop_assert_eq!(seen.id, Some(id));
        prop_assert_eq!(seen.persistence, Some(RequestPersistence::Keep));
        prop_assert!(seen.params == Some(params));
        prop_assert!(seen.stdin == stdin && seen.stdin_ended);
    }

    #[test]
    fn hostile_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read_in(&bytes, 7);
        if let Some(first) = bytes.first_mut() { *first = 1 }
        let _ = read_in(&bytes, 200);
    }
}
