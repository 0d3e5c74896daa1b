//! Vermeil with a new user's configuration, on one core and without a log.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::network::Spread;
use crate::peers::{FastcgiPool, PeerSetting};
use crate::{BenchError, BenchResult};

/// Which of Vermeil's drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VermeilIo {
    /// io_uring.
    Uring,
    /// epoll.
    Epoll,
}

impl VermeilIo {
    /// The value of `--io`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uring => "uring",
            Self::Epoll => "epoll",
        }
    }
}

/// The command that starts the binary at `program` on the folder of `setting`.
pub fn command(setting: PeerSetting<'_>, program: &Path, io: VermeilIo) -> Command {
    let mut command = setting.network.server_command(program, setting.cpu);
    command.arg("serve").arg(setting.root).arg("--listen").arg(setting.address.to_string());
    // A number alone would be a count.
    command.arg("--cores").arg(format!("{0}-{0}", setting.cpu)).args(["--log", "off", "--io", io.name()]);
    command
}

/// The command that starts the binary at `program` in front of a pool of PHP; Vermeil keeps as many
/// connections as the pool has children.
///
/// # Errors
/// When the configuration cannot be written.
pub fn php_command(
    setting: PeerSetting<'_>,
    program: &Path,
    io: VermeilIo,
    FastcgiPool { socket, children, spread }: FastcgiPool<'_>,
) -> BenchResult<Command> {
    let (address, cpu, root, socket) =
        (setting.address, setting.cpu, setting.root.display(), socket.display());
    let io = io.name();
    let cores = match spread {
        Spread::OneCpu => format!("cores = \"{cpu}-{cpu}\"\n"),
        Spread::AllCpus => String::new(),
    };
    let text = format!(
        "{cores}io = \"{io}\"
log = \"off\"
[[listener]]
address = \"{address}\"
[php]
source = \"unix:{socket}\"
children = {children}
kept_max = {children}
[[host]]
default = true
root = \"{root}\"
php = true
"
    );
    let path = setting.state.join("vermeil.toml");
    fs::write(&path, text).map_err(BenchError::path("write", &path))?;
    let mut command = setting.network.spread_command(program, cpu, spread);
    command.args(["serve", "--config"]).arg(path);
    Ok(command)
}
