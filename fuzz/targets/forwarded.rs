//! The fields of proxies: a client or none, never a panic, and never an address that is not at the
//! end of the list.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vermeil_http::{
    FieldLines,
    forwarded::{ForwardedBy, client},
};

fuzz_target!(|bytes: &[u8]| {
    let head = [b"GET / HTTP/1.1\r\n", bytes].concat();
    for by in [ForwardedBy::XForwarded, ForwardedBy::Forwarded] {
        let last = client(FieldLines::of_refused(&head), by, |_| false);
        let followed = client(FieldLines::of_refused(&head), by, |_| true);
        assert_eq!(last.address.is_some(), followed.address.is_some());
    }
});
