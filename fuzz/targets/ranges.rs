//! Ranges: each range lies within the file, several ranges do not touch, and their sum is at most
//! the file's size.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vermeil_http::ranges::{ByteRange, Ranges, parse};

fuzz_target!(|data: (u32, &[u8])| {
    let (size, header) = (u64::from(data.0), data.1);
    let lies_within = |range: &ByteRange| range.start < range.end && range.end <= size;
    match parse(header, size, 16) {
        Ranges::Whole | Ranges::Unsatisfiable => {}
        Ranges::Single(range) => assert!(lies_within(&range)),
        Ranges::Several(ranges) => {
            assert!((2..=16).contains(&ranges.len()) && ranges.iter().all(lies_within));
            assert!(ranges.iter().map(|range| range.len()).sum::<u64>() <= size);
        }
    }
});
