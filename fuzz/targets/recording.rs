//! Recordings of runs: what is read is written as it was read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vermeil_sched::recording::Recording;

fuzz_target!(|text: &str| {
    let Ok(recording) = Recording::parse(text) else { return };
    assert_eq!(Recording::parse(&recording.to_text()).expect("what was written can be read"), recording);
});
