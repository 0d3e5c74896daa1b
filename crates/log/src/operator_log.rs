//! Lines for the operator, on standard error.
//!
//! Owns the name at the start of each line: the server, or one of its instances. Leaves out notices
//! about frequent events (`notices.rs`). Tested through the binary.

use std::{
    fmt,
    io::{self, Write as _},
    sync::OnceLock,
};

/// The number of this instance and the prefix of its lines, if there are several instances.
static SPEAKER: OnceLock<(u32, String)> = OnceLock::new();

/// The prefix of this process's lines: the program's name, with the instance number if there are
/// several instances.
pub fn process_name() -> &'static str {
    SPEAKER.get().map_or("vermeil", |(_, speaker)| speaker)
}

/// The number of this instance, or 0 if it is the only instance.
pub fn instance() -> u32 {
    SPEAKER.get().map_or(0, |(number, _)| *number)
}

/// Marks all further lines as those of instance `number`.
pub fn log_as_instance(number: u32) {
    // A second call would mean a second instance in this process, which cannot happen.
    let _ = SPEAKER.set((number, format!("vermeil[{number}]")));
}

/// Writes a line. A closed standard error is no reason to stop.
pub fn log_line(line: fmt::Arguments<'_>) {
    // In a single write, because several processes write to the same stream.
    let _ = io::stderr().write_all(format!("{}: {line}\n", process_name()).as_bytes());
}
