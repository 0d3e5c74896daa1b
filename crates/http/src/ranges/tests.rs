//! Ranges against a set of byte positions, and multipart lengths against the written bytes.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::limits::RANGES_MAX;

fn single(start: u64, end: u64) -> Ranges {
    Ranges::Single(ByteRange { start, end })
}

fn several(ranges: &[(u64, u64)]) -> Ranges {
    Ranges::Several(ranges.iter().map(|&(start, end)| ByteRange { start, end }).collect())
}

#[test]
fn table() {
    let cases: &[(&str, u64, Ranges)] = &[
        ("bytes=0-9", 100, single(0, 10)),
        ("bytes=0-0", 100, single(0, 1)),
        ("bytes=90-", 100, single(90, 100)),
        ("bytes=90-200", 100, single(90, 100)),
        ("bytes=-10", 100, single(90, 100)),
        ("bytes=-200", 100, single(0, 100)),
        ("bytes=0-", 100, single(0, 100)),
        ("Bytes=0-9", 100, single(0, 10)),
        ("bytes= 0-9 ", 100, single(0, 10)),
        ("bytes=,0-9,", 100, single(0, 10)),
        ("bytes=100-", 100, Ranges::Unsatisfiable),
        ("bytes=100-200", 100, Ranges::Unsatisfiable),
        ("bytes=-0", 100, Ranges::Unsatisfiable),
        ("bytes=99999999999999999999-", 100, Ranges::Unsatisfiable),
        ("bytes=0-99999999999999999999", 100, single(0, 100)),
        ("bytes=-99999999999999999999", 100, single(0, 100)),
        ("bytes=18446744073709551615-18446744073709551615", u64::MAX, Ranges::Unsatisfiable),
        ("bytes=0-1,3-4", 100, several(&[(0, 2), (3, 5)])),
        ("bytes=50-59, 0-9", 100, several(&[(50, 60), (0, 10)])),
        ("bytes=0-1,200-,3-4", 100, several(&[(0, 2), (3, 5)])),
        ("bytes=200-,0-1", 100, single(0, 2)),
        ("bytes=0-9,10-19", 100, single(0, 20)),
        ("bytes=0-9,5-14", 100, single(0, 15)),
        ("bytes=20-29,0-9,10-19", 100, single(0, 30)),
        ("bytes=20-29,0-4,60-69,25-30", 100, several(&[(20, 31), (0, 5), (60, 70)])),
        ("bytes=0-4,50-54,10-14,5-9", 100, several(&[(0, 15), (50, 55)])),
        ("bytes=-1,0-0", 100, several(&[(99, 100), (0, 1)])),
        // More bytes than there are.
        ("bytes=0-,0-,0-", 100, Ranges::Whole),
        ("bytes=0-60,40-99", 100, Ranges::Whole),
        // Not a range.
        ("bytes=", 100, Ranges::Whole),
        ("bytes=,", 100, Ranges::Whole),
        ("bytes=-", 100, Ranges::Whole),
        ("bytes=a-b", 100, Ranges::Whole),
        ("bytes=5", 100, Ranges::Whole),
        ("bytes=9-5", 100, Ranges::Whole),
        ("bytes=0-1-2", 100, Ranges::Whole),
        ("bytes=+0-1", 100, Ranges::Whole),
        ("bytes=0 - 1", 100, Ranges::Whole),
        ("bytes=0-1,x", 100, Ranges::Whole),
        ("bytes 0-1", 100, Ranges::Whole),
        ("bytes = 0-1", 100, Ranges::Whole),
        ("pages=0-1", 100, Ranges::Whole),
        ("", 100, Ranges::Whole),
        // Nothing to cut.
        ("bytes=0-", 0, Ranges::Whole),
        ("bytes=-5", 0, Ranges::Whole),
        ("bytes=5-9", 0, Ranges::Whole),
    ];
    for (header, size, expected) in cases {
        assert_eq!(parse(header.as_bytes(), *size, RANGES_MAX), *expected, "{header} of {size}");
    }
}

#[test]
fn the_limit_of_ranges_is_exact() {
    let header = |count: usize| {
        let ranges: Vec<_> = (0..count).map(|i| format!("{}-{}", i * 10, i * 10)).collect();
        format!("bytes={}", ranges.join(","))
    };
    let Ranges::Several(ranges) = parse(header(16).as_bytes(), 1000, 16) else {
        panic!("16 ranges are allowed")
    };
    assert_eq!(ranges.len(), 16);
    assert_eq!(parse(header(17).as_bytes(), 1000, 16), Ranges::Whole);
    let outside = format!("bytes={}0-0", "5000-,".repeat(16));
    assert_eq!(parse(outside.as_bytes(), 1000, 16), Ranges::Whole);
}

/// CVE-2011-3192: 1,300 ranges that overlap.
#[test]
fn apache_killer_gets_the_whole() {
    let ranges: Vec<_> = (0..1300).map(|i| format!("5-{i}")).collect();
    let header = format!("bytes=0-,{}", ranges.join(","));
    assert_eq!(parse(header.as_bytes(), 10_000, RANGES_MAX), Ranges::Whole);
}

#[derive(Clone, Copy, Debug)]
enum RangeSpecText {
    Closed(u64, u64),
    Open(u64),
    Suffix(u64),
}

impl RangeSpecText {
    fn text(self) -> String {
        match self {
            Self::Closed(first, last) => format!("{first}-{last}"),
            Self::Open(first) => format!("{first}-"),
            Self::Suffix(len) => format!("-{len}"),
        }
    }

    /// The positions of the range, listed; `None` if the range is invalid.
    fn positions(self, size: u64) -> Option<Vec<u64>> {
        match self {
            Self::Closed(first, last) if last < first => None,
            Self::Closed(first, last) => Some((0..size).filter(|&p| p >= first && p <= last).collect()),
            Self::Open(first) => Some((0..size).filter(|&p| p >= first).collect()),
            Self::Suffix(len) => Some((0..size).filter(|&p| p + len >= size && len > 0).collect()),
        }
    }
}

fn spec() -> impl Strategy<Value = RangeSpecText> {
    prop_oneof![
        4 => (0..60u64, 0..20u64).prop_map(|(first, more)| RangeSpecText::Closed(first, first + more)),
        1 => (0..60u64, 0..60u64).prop_map(|(first, last)| RangeSpecText::Closed(first, last)),
        1 => (0..60u64).prop_map(RangeSpecText::Open),
        1 => (0..20u64).prop_map(RangeSpecText::Suffix),
    ]
}

proptest! {
    #![proptest_config(crate::fixed_cases(1000))]

    #[test]
    fn the_bytes_sent_are_the_bytes_asked_for(
        specs in prop::collection::vec(spec(), 1..8),
        size in 0..50u64,
        ranges_max in 1..6usize,
    ) {
        let header = format!("bytes={}", specs.iter().map(|spec| spec.text()).collect::<Vec<_>>().join(","));
        let got = parse(header.as_bytes(), size, ranges_max);
        let asked: Option<Vec<Vec<u64>>> = specs.iter().map(|spec| spec.positions(size)).collect();
        let Some(asked) = asked.filter(|_| size > 0 && specs.len() <= ranges_max) else {
            prop_assert_eq!(got, Ranges::Whole);
            return Ok(());
        };
        let total: usize = asked.iter().map(Vec::len).sum();
        let wanted: BTreeSet<u64> = asked.iter().flatten().copied().collect();
        let sent = match got {
            Ranges::Whole => {
                prop_assert!(total as u64 > size);
                return Ok(());
            }
            Ranges::Unsatisfiable => vec![],
            Ranges::Single(range) => vec![range],
            Ranges::Several(ranges) => {
                prop_assert!(ranges.len() >= 2);
                ranges
            }
        };
        let positions: Vec<u64> = sent.iter().flat_map(|range| range.start..range.end).collect();
        prop_assert_eq!(positions.len(), wanted.len(), "ranges are disjoint");
        prop_assert_eq!(positions.iter().copied().collect::<BTreeSet<_>>(), wanted);
        for (i, a) in sent.iter().enumerate() {
            prop_assert!(sent[i + 1..].iter().all(|b| !a.touches(*b)), "{:?}", sent);
        }
        // The first bytes asked for are in the first range sent.
        if let Some(first) = asked.iter().flatten().next() {
            prop_assert!((sent[0].start..sent[0].end).contains(first));
        }
    }

    #[test]
    fn the_length_announced_is_the_length_written(
        starts in prop::collection::vec((0..u64::MAX / 2, 1..100u64), 2..16),
        bits in any::<u64>(),
    ) {
        let ranges: Vec<_> = starts.iter().map(|&(start, len)| ByteRange { start, end: start + len }).collect();
        let multipart = Multipart { ranges: &ranges, size: u64::MAX, content_type: b"text/plain", boundary: Boundary::new(bits) };
        let mut out = Vec::new();
        for (index, range) in ranges.iter().enumerate() {
            multipart.write_part_head(index, &mut out);
            out.resize(out.len() + range.len() as usize, b'x');
        }
        multipart.write_end(&mut out);
        prop_assert_eq!(multipart.content_length(), out.len() as u64);
    }
}

#[test]
fn a_multipart_looks_like_the_one_of_the_rfc() {
    let ranges = [ByteRange { start: 500, end: 503 }, ByteRange { start: 7000, end: 7002 }];
    let boundary = Boundary::new(0x0123_4567_89ab_cdef);
    let multipart = Multipart { ranges: &ranges, size: 8000, content_type: b"application/pdf", boundary };
    let mut out = Vec::new();
    multipart.write_content_type(&mut out);
    assert_eq!(out, b"multipart/byteranges; boundary=fedcba9876543210");
    out.clear();
    multipart.write_part_head(0, &mut out);
    out.extend_from_slice(b"abc");
    multipart.write_part_head(1, &mut out);
    out.extend_from_slice(b"de");
    multipart.write_end(&mut out);
    let expected = "--fedcba9876543210\r\nContent-Type: application/pdf\r\nContent-Range: bytes 500-502/8000\r\n\r\nabc\r\n\
         --fedcba9876543210\r\nContent-Type: application/pdf\r\nContent-Range: bytes 7000-7001/8000\r\n\r\nde\r\n\
         --fedcba9876543210--\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn content_range_of_one_part_and_of_none() {
    let mut out = Vec::new();
    write_content_range(&mut out, ByteRange { start: 0, end: 1 }, u64::MAX);
    out.push(b'|');
    write_unsatisfied_range(&mut out, 0);
    assert_eq!(out, b"bytes 0-0/18446744073709551615|bytes */0");
}
