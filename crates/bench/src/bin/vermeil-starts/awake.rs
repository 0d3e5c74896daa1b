//! Cpus that are not halted while they have nothing to do, but look for something all the time.
//!
//! A halted cpu of a virtual machine is the host's, and whoever wakes it waits until the host gives it back. A loop that starts
//! programs by itself needs that once for each; a caller, its spawner and the program take turns, and need it more often. A
//! server under load has no cpu that is halted. So the ways that are compared are tried both ways. The time that a cpu looks
//! for something to do is charged to nobody.

use std::{
    fs::File,
    io::{self, Write as _},
};

/// What is written to it says in how many microseconds a cpu must be there again, for as long as the file is open (pm_qos).
const LATENCY: &str = "/dev/cpu_dma_latency";

/// Cpus stay awake until the file is closed.
///
/// # Errors
/// This user may not ask for it, or the kernel knows no such thing.
pub(crate) fn hold() -> io::Result<File> {
    let mut file = File::options().write(true).open(LATENCY)?;
    file.write_all(&0_i32.to_ne_bytes())?;
    Ok(file)
}
