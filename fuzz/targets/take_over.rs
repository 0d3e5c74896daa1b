//! Messages between servers at a take-over, of a server to its broker, and of instances to their
//! supervisor: parsed or rejected.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vermeil_server::fuzz::{orders, take_over};

fuzz_target!(|bytes: &[u8]| {
    let _ = (take_over(bytes), orders(bytes));
});
