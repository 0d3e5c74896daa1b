//! Keeps idle cpus from halting: an idle cpu polls instead.
//!
//! The host takes a halted cpu of a virtual machine away, and a wake-up waits until the host
//! returns the cpu. A loop that starts programs without help needs one wake-up per start; a caller,
//! its spawner and the program take turns and need more. A server under load has no halted cpu. The
//! bench therefore compares the ways both with and without halting. The polling time of a cpu is
//! charged to no process.

use std::{
    fs::File,
    io::{self, Write as _},
};

/// A number written here sets the maximum wake-up latency of the cpus in microseconds while the
/// file is open (pm_qos).
const LATENCY: &str = "/dev/cpu_dma_latency";

/// Keeps cpus awake until the file is closed.
///
/// # Errors
/// This user has no right to the file, or the kernel has no such file.
pub(crate) fn hold() -> io::Result<File> {
    let mut file = File::options().write(true).open(LATENCY)?;
    file.write_all(&0_i32.to_ne_bytes())?;
    Ok(file)
}
