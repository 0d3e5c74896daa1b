//! The fields of proxies: a client or none, never a panic, and never an address that is not at the
//! end of the list.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vermeil_http::{
    FieldLines,
    forwarded::{ForwardedAddress, ForwardedBy, client},
};

fuzz_target!(|bytes: &[u8]| {
    let head = [b"GET / HTTP/1.1\r\n", bytes].concat();
    for by in [ForwardedBy::XForwarded, ForwardedBy::Forwarded] {
        let last = client(FieldLines::of_refused(&head), by, |_| false);
        let followed = client(FieldLines::of_refused(&head), by, |_| true);
        let unlisted = ForwardedAddress::Unlisted;
        assert_eq!(last.address == unlisted, followed.address == unlisted);
        // Nothing before an invalid address counts, however far the proxies are trusted.
        if last.address == ForwardedAddress::Unknown {
            assert_eq!(followed.address, ForwardedAddress::Unknown);
        }
    }
});
