//! Recordings of runs: a recording that is written and parsed again is unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vermeil_sched::recording::Recording;

fuzz_target!(|text: &str| {
    let Ok(recording) = Recording::parse(text) else { return };
    assert_eq!(Recording::parse(&recording.to_text()).expect("what was written can be read"), recording);
});
