//! Paths: a decoded path never climbs, and decoding an encoded path restores the path.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vermeil_http::path::{decode, percent_encode_path};

fuzz_target!(|raw: &[u8]| {
    let mut room = Vec::new();
    let Ok(path) = decode(raw, &mut room) else { return };
    let (first, rest) = path.bytes.split_first().expect("a path starts with a slash");
    assert_eq!(*first, b'/');
    let names: Vec<&[u8]> = rest.split(|&byte| byte == b'/').collect();
    for (at, name) in names.iter().enumerate() {
        let is_last = at + 1 == names.len();
        assert!(is_last || !name.is_empty(), "an empty name in {}", path.bytes.escape_ascii());
        assert!(*name != b"." && *name != b"..", "{} climbs", path.bytes.escape_ascii());
        assert!(!name.contains(&0));
    }
    let mut encoded = Vec::new();
    percent_encode_path(path.bytes, &mut encoded);
    let mut again = Vec::new();
    assert_eq!(decode(&encoded, &mut again).expect("what was encoded is a path").bytes, path.bytes);
});
