//! Requests on a connection: wherever the bytes are cut, the requests and rejections are the same,
//! and httparse reads each accepted request alike.
#![no_main]

#[path = "../../crates/http/tests/corpus/converse.rs"]
#[allow(dead_code, reason = "the corpus uses all of it")]
mod converse;

use converse::{check_against_httparse, check_moment, check_prefixes, converse};
use libfuzzer_sys::fuzz_target;
use vermeil_http::ConnectionLimits;

fuzz_target!(|data: (u16, &[u8])| {
    let (cut, bytes) = data;
    let limits = ConnectionLimits::default();
    let (front, back) = bytes.split_at(usize::from(cut).min(bytes.len()));
    assert_eq!(converse([bytes], &limits), converse([front, back], &limits));
    check_prefixes(bytes, &limits);
    check_moment(bytes, &limits);
    check_against_httparse(bytes, &limits);
});
