//! Lines for whoever started the server, on standard error.
//!
//! Owns who speaks: the server, or one of its instances. Leaves out what is said as often as something happens
//! (`log/notices.rs`). Tested through the binary.

use std::{
    fmt,
    io::{self, Write as _},
    sync::OnceLock,
};

static SPEAKER: OnceLock<String> = OnceLock::new();

/// What lines begin with.
pub(crate) fn speaker() -> &'static str {
    SPEAKER.get().map_or("vermeil", String::as_str)
}

/// From now on lines are this instance's.
pub(crate) fn speak_as_instance(number: u32) {
    // The second time would be a second instance in this process, which there is not.
    let _ = SPEAKER.set(format!("vermeil[{number}]"));
}

/// Says one line; a closed standard error is no reason to stop.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    // In one write: several processes speak.
    let _ = io::stderr().write_all(format!("{}: {line}\n", speaker()).as_bytes());
}
