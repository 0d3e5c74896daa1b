//! Keeps the cpus from halting: an idle cpu polls instead.
//!
//! A host takes a halted cpu away from its virtual machine. A wake-up then waits until the host
//! gives the cpu back. The ways of starting differ in the number of such wake-ups: a direct start
//! needs one, and a start through a spawner needs more. A server under load has no halted cpu.
//! Therefore the bench compares the ways both with and without halting. The kernel charges the
//! polling to no process.

use std::{
    fs::File,
    io::{self, Write as _},
};

/// The number written here bounds the wake-up latency of all cpus, in microseconds, while the file
/// is open (Linux, "PM Quality of Service"). Zero forbids halting.
const LATENCY: &str = "/dev/cpu_dma_latency";

/// Keeps the cpus awake until the file is dropped.
///
/// # Errors
/// This user has no right to the file, or the kernel has no such file.
pub(crate) fn hold() -> io::Result<File> {
    let mut file = File::options().write(true).open(LATENCY)?;
    file.write_all(&0_i32.to_ne_bytes())?;
    Ok(file)
}
