//! Lines for whoever started the server, on standard error.
//!
//! Owns who speaks: the server, or one of its instances. Leaves out what is said as often as something happens
//! (`log/notices.rs`). Tested through the binary.

use std::{
    fmt,
    io::{self, Write as _},
    sync::OnceLock,
};

/// The number of this instance, if it is one of several, and what its lines begin with.
static SPEAKER: OnceLock<(u32, String)> = OnceLock::new();

/// What the lines of this process begin with: its name, and its number if it is one of several instances.
pub fn speaker() -> &'static str {
    SPEAKER.get().map_or("vermeil", |(_, speaker)| speaker)
}

/// The number of this instance; 0 if it is the only one.
pub(crate) fn instance() -> u32 {
    SPEAKER.get().map_or(0, |(number, _)| *number)
}

/// From now on lines are this instance's.
pub(crate) fn speak_as_instance(number: u32) {
    // The second time would be a second instance in this process, which there is not.
    let _ = SPEAKER.set((number, format!("vermeil[{number}]")));
}

/// Says one line; a closed standard error is no reason to stop.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    // In one write: several processes speak.
    let _ = io::stderr().write_all(format!("{}: {line}\n", speaker()).as_bytes());
}
