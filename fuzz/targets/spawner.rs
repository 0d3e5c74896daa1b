//! Messages of a server to keeper and spawner, and back: read or refused, and a profile means the same when it is written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vermeil_spawn::fuzz::read;

fuzz_target!(|bytes: &[u8]| read(bytes));
