//! The servers with their configurations, with room for all idle connections.

use std::fs;
use std::process::Command;

use crate::options::BenchOptions;
use crate::peers::nginx::temporary;
use crate::peers::vermeil::VermeilIo;
use crate::peers::{PeerSetting, find_program, floor, is_here};
use crate::size::BenchSize;
use crate::{BenchError, BenchResult};

use super::FILE;

/// Room for connections: more than any part opens. Vermeil lowers the bound to its descriptors.
const ROOM: usize = 18_000;
/// Connections that a listener queues, as many as a core's listener of Vermeil.
const BACKLOG: u16 = 1024;

/// The servers of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AcceptServer {
    VermeilUring,
    VermeilEpoll,
    Nginx,
    Lighttpd,
    /// The least that the kernel needs: a loop of blocking calls that answers each connection once.
    Floor,
}

impl AcceptServer {
    /// The name in rows.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::VermeilUring => "vermeil-uring",
            Self::VermeilEpoll => "vermeil-epoll",
            Self::Nginx => "nginx",
            Self::Lighttpd => "lighttpd",
            Self::Floor => "floor",
        }
    }

    /// The installed servers.
    ///
    /// # Errors
    /// As [`is_here`].
    pub(super) fn here(size: BenchSize) -> BenchResult<Vec<Self>> {
        let mut servers = vec![Self::VermeilUring, Self::VermeilEpoll];
        if is_here(size, ("nginx", "nginx"))? {
            servers.push(Self::Nginx);
        }
        if find_program("lighttpd").is_some() {
            servers.push(Self::Lighttpd);
        }
        servers.push(Self::Floor);
        Ok(servers)
    }

    /// Whether the server keeps as many connections as the part with idle connections opens.
    /// lighttpd keeps half as many as it has descriptors.
    pub(super) fn keeps_connections(self) -> bool {
        !matches!(self, Self::Floor | Self::Lighttpd)
    }

    /// The command that starts the server.
    pub(super) fn command(self, options: &BenchOptions, setting: PeerSetting<'_>) -> BenchResult<Command> {
        let write = |name: &str, text: String| {
            let path = setting.state.join(name);
            fs::write(&path, text).map_err(BenchError::path("write", &path))?;
            Ok(path)
        };
        let peer = |program: &'static str| {
            let path = find_program(program).ok_or(BenchError::Missing { program, package: program })?;
            Ok::<_, BenchError>(setting.network.server_command(path, setting.cpu))
        };
        Ok(match self {
            Self::VermeilUring | Self::VermeilEpoll => {
                let io = if self == Self::VermeilUring { VermeilIo::Uring } else { VermeilIo::Epoll };
                let mut command = setting.network.server_command(&options.vermeil, setting.cpu);
                command.args(["serve", "--config"]).arg(write("vermeil.toml", vermeil(setting, io))?);
                command
            }
            Self::Nginx => {
                let mut command = peer("nginx")?;
                command.arg("-p").arg(setting.state).arg("-c").arg(write("nginx.conf", nginx(setting))?);
                command.arg("-e").arg(setting.state.join("error.log"));
                command
            }
            Self::Lighttpd => {
                let mut command = peer("lighttpd")?;
                command.arg("-D").arg("-f").arg(write("lighttpd.conf", lighttpd(setting))?);
                command
            }
            Self::Floor => floor::once_command(setting, &options.binary("vermeil-floor"), FILE.1, BACKLOG),
        })
    }
}

fn vermeil(PeerSetting { address, cpu, root, .. }: PeerSetting<'_>, io: VermeilIo) -> String {
    format!(
        "cores = \"{cpu}-{cpu}\"
io = \"{}\"
log = \"off\"
[limits]
connections_max = {ROOM}
[timeouts]
keep_alive = \"10m\"
[[listener]]
address = \"{address}\"
[[host]]
default = true
root = \"{}\"
",
        io.name(),
        root.display()
    )
}

fn nginx(PeerSetting { address, root, state, .. }: PeerSetting<'_>) -> String {
    let (root, temporary, state) = (root.display(), temporary(state), state.display());
    format!(
        "daemon off;
worker_processes 1;
worker_rlimit_nofile 20000;
pid {state}/nginx.pid;
error_log {state}/error.log crit;
events {{
    worker_connections {ROOM};
    use epoll;
    multi_accept on;
}}
http {{
    include /etc/nginx/mime.types;
    access_log off;
    sendfile off;
    tcp_nodelay on;
    keepalive_timeout 600;
    keepalive_requests 1000000000;
    open_file_cache max=10000 inactive=300s;
    open_file_cache_valid 60s;
    open_file_cache_min_uses 1;
    {temporary}
    server {{
        listen {address} backlog={BACKLOG};
        root {root};
    }}
}}
"
    )
}

fn lighttpd(PeerSetting { address, root, .. }: PeerSetting<'_>) -> String {
    format!(
        "server.bind = \"{}\"
server.port = {}
server.document-root = \"{}\"
server.max-fds = 20000
server.listen-backlog = {BACKLOG}
server.max-keep-alive-requests = 1000000000
mimetype.assign = ( \".html\" => \"text/html\" )
",
        address.ip(),
        address.port(),
        root.display()
    )
}
