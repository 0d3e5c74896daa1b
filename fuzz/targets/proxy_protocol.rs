//! Headers of the PROXY protocol: parsed or refused, never a panic, and the same verdict however
//! the bytes are cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vermeil_http::proxy_protocol::{ProxyHeaderPart, parse};

fuzz_target!(|bytes: &[u8]| {
    let whole = parse(bytes);
    if let ProxyHeaderPart::Complete(_, length) = whole {
        assert!((1..=bytes.len()).contains(&length));
        assert_eq!(parse(&bytes[..length]), whole, "the bytes behind do not count");
    }
    for cut in 0..bytes.len().min(300) {
        match parse(&bytes[..cut]) {
            ProxyHeaderPart::Incomplete => {}
            verdict => assert_eq!(verdict, whole, "cut at {cut}"),
        }
    }
});
