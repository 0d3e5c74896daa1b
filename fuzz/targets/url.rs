//! URLs for the load injector: parsed or rejected, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vermeil_load::Url;

fuzz_target!(|text: &str| {
    if let Err(error) = text.parse::<Url>() {
        assert!(!error.to_string().is_empty());
    }
});
