//! A FastCGI application that is not PHP: see the binary `vermeil-echo`.

use std::path::Path;
use std::process::Command;

use crate::BenchResult;
use crate::peers::fpm;
use crate::peers::process::PeerProcess;

/// Starts the application at `program` with that many `children` on all cpus, with the same socket
/// path in the folder `pool` as php-fpm, and waits until the application listens.
///
/// # Errors
/// The application cannot be started, or does not listen in time.
pub fn start(program: &Path, pool: &Path, children: usize) -> BenchResult<PeerProcess> {
    let mut command = Command::new(program);
    command.arg("--socket").arg(fpm::socket(pool)).args(["--children", &children.to_string()]);
    fpm::start_pool("vermeil-echo", command, pool)
}
