//! Requests to the control socket: any bytes are a known or an unknown request, and bytes behind
//! the line change nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vermeil_server::fuzz::control;

fuzz_target!(|line: &[u8]| {
    let asked = control(line);
    let ended = [line, b"\r\n"].concat();
    assert_eq!(control(&ended), asked);
});
