//! Messages of a server to keeper and spawner, and back: parsed or rejected, and a profile that is
//! written again has the same meaning.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vermeil_spawn::fuzz::read;

fuzz_target!(|bytes: &[u8]| read(bytes));
