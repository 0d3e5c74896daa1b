//! php-fpm: a pool of lasting children, like Vermeil's pools.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::network::BenchNetwork;
use crate::peers::find_program;
use crate::peers::process::PeerProcess;
use crate::{BenchError, BenchResult};

/// The program under Debian's name, and its package.
pub const FPM: (&str, &str) = ("php-fpm8.2", "php-fpm");

/// A pool that does not listen by then has failed; a start takes some 50 ms.
const START_MAX: Duration = Duration::from_secs(10);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The socket path of a pool with its files in the folder `pool`.
pub fn socket(pool: &Path) -> PathBuf {
    pool.join("socket")
}

/// Maximum number of connections that wait for a child.
pub const QUEUE: usize = 4096;

/// Starts that many `children` on `cpu`, with all their files in the folder `pool`, and waits until
/// the pool listens.
///
/// # Errors
/// php-fpm is not installed, the configuration cannot be written, or the pool does not listen in
/// time.
pub fn start(network: &BenchNetwork, cpu: usize, pool: &Path, children: usize) -> BenchResult<PeerProcess> {
    start_pool(FPM.0, command(network, cpu, pool, children)?, pool)
}

/// Starts a pool by `command`, and waits until the pool listens at the socket path in the folder
/// `pool`.
pub(super) fn start_pool(name: &str, command: Command, pool: &Path) -> BenchResult<PeerProcess> {
    let process = PeerProcess::start(name, command, pool)?;
    let deadline = Instant::now() + START_MAX;
    while UnixStream::connect(socket(pool)).is_err() {
        if Instant::now() >= deadline {
            return Err(process.failure(&format!("does not listen after {START_MAX:?}")));
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(process)
}

fn command(network: &BenchNetwork, cpu: usize, pool: &Path, children: usize) -> BenchResult<Command> {
    let (program, package) = FPM;
    let found = find_program(program).ok_or(BenchError::Missing { program, package })?;
    let path = pool.join("fpm.conf");
    let (folder, socket) = (pool.display(), socket(pool));
    let text = format!(
        "[global]
pid = {folder}/pid
error_log = {folder}/error.log
daemonize = no
[www]
user = www-data
group = www-data
listen = {}
listen.mode = 0666
listen.backlog = {QUEUE}
pm = static
pm.max_children = {children}
",
        socket.display()
    );
    fs::write(&path, text).map_err(BenchError::path("write", &path))?;
    let mut command = network.server_command(found, cpu);
    command.arg("--nodaemonize").arg("--fpm-config").arg(path);
    Ok(command)
}
