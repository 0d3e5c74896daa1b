//! Descriptions of machines, as hwloc's XML or synthetic: a machine or an error, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vermeil_topology::{synthetic, xml};

fuzz_target!(|text: &str| {
    let read = if text.starts_with('<') { xml::parse(text) } else { synthetic::parse(text) };
    if let Err(error) = read {
        assert!(!error.to_string().is_empty());
    }
});
