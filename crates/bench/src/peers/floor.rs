//! The floor: see the binary `vermeil-floor`.
//!
//! The floor answers with the same number of bytes as the reference server, head and body apart, so
//! that the floor sends the bytes that a server would have to send. The cheaper way to send a body,
//! a copy from memory or the page cache, depends on the size of the body. A floor must be the
//! cheapest way, so a bench tries both.

use std::fmt;
use std::path::Path;
use std::process::Command;

use crate::peers::vermeil::VermeilIo;
use crate::peers::{FastcgiPool, PeerSetting};
use crate::probe::ProbeAnswer;

/// How the floor sends a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FloorSending {
    /// Head and body in one send from memory.
    #[default]
    Memory,
    /// One send of the head, held back (MSG_MORE) to travel with the following bytes of sendfile.
    Joined,
    /// One send of the head, then sendfile.
    Apart,
}

impl FloorSending {
    /// Every value.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Joined, Self::Apart];
}

/// The approximate length of Vermeil's head of a small file.
const HEAD_BYTES: &str = "230";

impl fmt::Display for FloorSending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "one send",
            Self::Joined => "send and sendfile, joined",
            Self::Apart => "send and sendfile",
        })
    }
}

/// The command that starts the floor at `program` with blocking calls, a connection for each
/// request, and a queue of `queue` connections. The floor answers with a body of `body_bytes`
/// bytes, and a head as long as Vermeil's.
pub fn once_command(setting: PeerSetting<'_>, program: &Path, body_bytes: usize, queue: u16) -> Command {
    let mut command = setting.network.server_command(program, setting.cpu);
    command.args(["--io", "once", "--listen", &setting.address.to_string(), "--status", "200"]);
    command.args(["--cpu", &setting.cpu.to_string(), "--queue", &queue.to_string()]);
    command.args(["--head", HEAD_BYTES, "--body", &body_bytes.to_string()]);
    command
}

/// The command that starts the floor at `program` with `io`, answering with the file that a request
/// names, and a head as long as Vermeil's. With `by_host` each host has a folder of its own.
pub fn files_command(setting: PeerSetting<'_>, program: &Path, io: VermeilIo, by_host: bool) -> Command {
    let mut command = setting.network.server_command(program, setting.cpu);
    command.args(["--io", io.name(), "--listen", &setting.address.to_string(), "--status", "200"]);
    command.args(["--cpu", &setting.cpu.to_string(), "--head", HEAD_BYTES]).arg("--folder").arg(setting.root);
    command.args(by_host.then_some("--by-host"));
    command
}

/// The command that starts the floor at `program` in front of a pool of PHP. The floor asks the
/// pool for `script`, and answers with as many bytes and a head as long as Vermeil's. The floor is
/// one thread, wherever the pool runs.
pub fn php_command(
    setting: PeerSetting<'_>,
    program: &Path,
    pool: FastcgiPool<'_>,
    script: &Path,
) -> Command {
    let mut command = setting.network.server_command(program, setting.cpu);
    command.args(["--io", "php", "--listen", &setting.address.to_string(), "--status", "200"]);
    command.args(["--cpu", &setting.cpu.to_string(), "--head", HEAD_BYTES]);
    command.arg("--socket").arg(pool.socket).arg("--script").arg(script);
    command.args(["--children", &pool.children.to_string()]);
    command
}

/// The command that starts the floor at `program`, answering like `answer`, with the content of
/// `file` as the body if the body is sent from a file.
pub fn command(
    setting: PeerSetting<'_>,
    program: &Path,
    io: VermeilIo,
    answer: &ProbeAnswer,
    (sending, file): (FloorSending, &Path),
) -> Command {
    let mut command = setting.network.server_command(program, setting.cpu);
    command.arg("--io").arg(io.name()).arg("--listen").arg(setting.address.to_string());
    command.arg("--cpu").arg(setting.cpu.to_string()).arg("--status").arg(answer.status.to_string());
    command.arg("--head").arg(answer.head_bytes.to_string()).arg("--body").arg(answer.body_bytes.to_string());
    if sending != FloorSending::Memory {
        command.arg("--file").arg(file);
    }
    if sending == FloorSending::Apart {
        command.arg("--head-apart");
    }
    command
}
