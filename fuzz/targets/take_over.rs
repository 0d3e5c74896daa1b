//! Messages of servers that take over, of a server to its broker and of instances to their supervisor: read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vermeil_server::fuzz::{orders, take_over};

fuzz_target!(|bytes: &[u8]| {
    let _ = (take_over(bytes), orders(bytes));
});
