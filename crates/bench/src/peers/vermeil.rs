//! Vermeil itself, as a stranger would start it, on one core and without a log.

use std::path::Path;
use std::process::Command;

use crate::peers::Setting;

/// Which of Vermeil's drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Io {
    /// io_uring.
    Uring,
    /// epoll.
    Epoll,
}

impl Io {
    /// The value of `--io`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uring => "uring",
            Self::Epoll => "epoll",
        }
    }
}

/// The command that starts the binary at `program` on the folder of `setting`.
pub fn command(setting: Setting<'_>, program: &Path, io: Io) -> Command {
    let mut command = setting.network.server_command(program, setting.cpu);
    command.arg("serve").arg(setting.root).arg("--listen").arg(setting.address.to_string());
    // A number alone would be a count.
    command.arg("--cores").arg(format!("{0}-{0}", setting.cpu)).args(["--log", "off", "--io", io.name()]);
    command
}
