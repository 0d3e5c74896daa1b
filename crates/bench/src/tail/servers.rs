//! The servers with their configurations.
//!
//! nginx runs without `open_file_cache`, because with the cache a request of these parts takes more
//! cpu time. lighttpd runs without its cache of `stat`, because that cache keeps files open, and
//! the answers beyond the limit of open files are errors.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::site::TailSite;
use crate::network::BenchNetwork;
use crate::options::BenchOptions;
use crate::peers::nginx::temporary;
use crate::peers::vermeil::VermeilIo;
use crate::peers::{PeerSetting, find_program, floor, is_here};
use crate::size::BenchSize;
use crate::{BenchError, BenchResult};

/// The servers of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TailServer {
    /// Vermeil with a new user's configuration, on io_uring.
    Vermeil,
    /// The same on epoll.
    VermeilEpoll,
    /// On io_uring, with a cache that holds a single path.
    VermeilUncached,
    /// nginx as Debian ships it.
    Nginx,
    /// lighttpd as Debian ships it, for the random parts.
    Lighttpd,
    /// The least work of a server that opens each file, on io_uring, for the random parts.
    Floor,
    /// The same on epoll.
    FloorEpoll,
}

impl TailServer {
    /// The name in rows.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Vermeil => "vermeil",
            Self::VermeilEpoll => "vermeil-epoll",
            Self::VermeilUncached => "vermeil-uncached",
            Self::Nginx => "nginx",
            Self::Lighttpd => "lighttpd",
            Self::Floor => "floor",
            Self::FloorEpoll => "floor-epoll",
        }
    }

    /// The installed servers.
    ///
    /// # Errors
    /// As [`is_here`].
    pub(super) fn here(size: BenchSize) -> BenchResult<Vec<Self>> {
        let mut servers = vec![Self::Vermeil, Self::VermeilEpoll, Self::VermeilUncached];
        if is_here(size, ("nginx", "nginx"))? {
            servers.push(Self::Nginx);
        }
        // Not every distribution has lighttpd, and the comparison stands without it.
        if find_program("lighttpd").is_some() {
            servers.push(Self::Lighttpd);
        }
        servers.extend([Self::Floor, Self::FloorEpoll]);
        Ok(servers)
    }

    /// Whether the part with a slow disk includes the server.
    pub(super) fn reads_slow_disk(self) -> bool {
        matches!(self, Self::Vermeil | Self::VermeilEpoll | Self::Nginx)
    }

    /// Whether the part that loads hosts includes the server.
    pub(super) fn loads_hosts(self) -> bool {
        matches!(self, Self::Vermeil | Self::Nginx)
    }
}

/// The files of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConfigFiles {
    /// A file with all hosts.
    One,
    /// A file for each host, included by a pattern.
    EachHost,
    /// A file with all hosts, and a certificate and a key for each host in files of their own.
    Certificates,
}

impl ConfigFiles {
    pub(super) const ALL: [Self; 3] = [Self::One, Self::EachHost, Self::Certificates];

    /// Whether `server` is measured with these files. nginx reads all certificates into memory at
    /// its start, which takes minutes.
    pub(super) fn fit(self, server: TailServer) -> bool {
        self != Self::Certificates || server == TailServer::Vermeil
    }
}

/// The hosts of a configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostConfig<'a> {
    /// Name and folder of each host.
    pub(super) hosts: &'a [(String, PathBuf)],
    pub(super) files: ConfigFiles,
    /// The folder for configurations and logs.
    pub(super) state: &'a Path,
    pub(super) address: SocketAddr,
    pub(super) cpu: usize,
}

impl HostConfig<'_> {
    /// The folder of the certificates.
    pub(super) fn certificates(state: &Path) -> PathBuf {
        state.join("certificates")
    }

    /// The files of the certificate and of the key of the host `name`.
    pub(super) fn pair(state: &Path, name: &str) -> [PathBuf; 2] {
        ["crt", "key"].map(|extension| Self::certificates(state).join(format!("{name}.{extension}")))
    }
}

/// The command that serves `site` at `address` on `cpu`.
pub(crate) fn command(
    server: TailServer,
    options: &BenchOptions,
    site: &TailSite,
    state: &Path,
    address: SocketAddr,
    cpu: usize,
) -> BenchResult<Command> {
    let io = match server {
        TailServer::Floor => Some(VermeilIo::Uring),
        TailServer::FloorEpoll => Some(VermeilIo::Epoll),
        _ => None,
    };
    if let Some(io) = io {
        let root = site.root();
        let setting = PeerSetting { network: &BenchNetwork::Loopback, address, cpu, root: &root, state };
        let program = options.binary("vermeil-floor");
        return Ok(floor::files_command(setting, &program, io, site.has_host_folders()));
    }
    let hosts = site.hosts();
    if server != TailServer::Lighttpd {
        let files = ConfigFiles::One;
        return host_command(server, options, HostConfig { hosts: &hosts, files, state, address, cpu });
    }
    let hosts = if site.has_host_folders() {
        format!(
            "server.modules = ( \"mod_evhost\" )\nevhost.path-pattern = \"{}/%_/\"\n",
            site.root().display()
        )
    } else {
        String::new()
    };
    let text = format!(
        "server.bind = \"{}\"
server.port = {}
server.document-root = \"{}\"
{hosts}server.stat-cache-engine = \"disable\"
server.max-keep-alive-requests = 1000000000
index-file.names = ( \"index.html\" )
mimetype.assign = ( \".html\" => \"text/html\" )
",
        address.ip(),
        address.port(),
        site.root().display()
    );
    let path = state.join("lighttpd.conf");
    fs::write(&path, text).map_err(BenchError::path("write", &path))?;
    let program =
        find_program("lighttpd").ok_or(BenchError::Missing { program: "lighttpd", package: "lighttpd" })?;
    let mut command = BenchNetwork::Loopback.server_command(program, cpu);
    command.arg("-D").arg("-f").arg(path);
    Ok(command)
}

/// `command` with private mounts, where the folder `root` is on overlayfs, like the files of most
/// containers. A mount for reading needs a second folder, which is `empty`.
pub(crate) fn on_overlay(command: &Command, root: &Path, empty: &Path) -> Command {
    let mut outer = Command::new("unshare");
    outer.args(["--mount", "sh", "-c", OVERLAY, "sh"]).arg(root).arg(empty);
    outer.arg(command.get_program()).args(command.get_args());
    outer
}

/// Puts the folder `$1`, and `$2` below it, over `$1` itself, and becomes the rest of the command.
const OVERLAY: &str = r#"mount -t overlay overlay -o "lowerdir=$1:$2" "$1" && shift 2 && exec "$@""#;

/// The command that serves the hosts of `config` with Vermeil or nginx; the others have no list of
/// hosts.
pub(super) fn host_command(
    server: TailServer,
    options: &BenchOptions,
    config: HostConfig<'_>,
) -> BenchResult<Command> {
    let vermeil = |io, cache| {
        let mut command = BenchNetwork::Loopback.server_command(&options.vermeil, config.cpu);
        command.args(["serve", "--config"]);
        Ok((command, "vermeil.toml", vermeil(config, io, cache)?))
    };
    let (mut command, file, text) = match server {
        TailServer::Vermeil => vermeil("uring", ""),
        TailServer::VermeilEpoll => vermeil("epoll", ""),
        TailServer::VermeilUncached => vermeil("uring", "[cache]\nbytes = \"64K\"\nentries = 1\n"),
        TailServer::Nginx => {
            let program =
                find_program("nginx").ok_or(BenchError::Missing { program: "nginx", package: "nginx" })?;
            let mut command = BenchNetwork::Loopback.server_command(program, config.cpu);
            command.arg("-e").arg(config.state.join("error.log"));
            command.arg("-p").arg(config.state).arg("-c");
            Ok((command, "nginx.conf", nginx(config)?))
        }
        TailServer::Lighttpd | TailServer::Floor | TailServer::FloorEpoll => {
            Err(BenchError::form(server.name(), "has no list of hosts"))
        }
    }?;
    let path = config.state.join(file);
    fs::write(&path, text).map_err(BenchError::path("write", &path))?;
    command.arg(path);
    Ok(command)
}

fn vermeil(config: HostConfig<'_>, io: &str, cache: &str) -> BenchResult<String> {
    let HostConfig { hosts, address, cpu, .. } = config;
    let host_texts = hosts.iter().map(|(name, root)| {
        let mut text = format!("\n[[host]]\nnames = [\"{name}\"]\nroot = \"{}\"\n", root.display());
        if config.files == ConfigFiles::Certificates {
            let [certificate, key] = HostConfig::pair(config.state, name);
            text += &format!("certificate = \"{}\"\nkey = \"{}\"\n", certificate.display(), key.display());
        }
        text
    });
    let (include, hosts) = match config.files {
        ConfigFiles::One => (String::new(), host_texts.collect::<String>()),
        ConfigFiles::Certificates => {
            let address = BenchNetwork::Loopback.free_address()?;
            let listener = format!("\n[[listener]]\naddress = \"{address}\"\ntls = true\n");
            (String::new(), host_texts.fold(listener, |all, text| all + &text))
        }
        ConfigFiles::EachHost => {
            (format!("include = \"{}\"\n", file_each(config, "toml", host_texts)?), String::new())
        }
    };
    Ok(format!(
        "{include}cores = \"{cpu}-{cpu}\"\nio = \"{io}\"\nlog = \"off\"\n{cache}\n\
         [[listener]]\naddress = \"{address}\"\n{hosts}"
    ))
}

/// Writes a file for each of `texts`. Returns the pattern that names the files.
fn file_each(
    config: HostConfig<'_>,
    extension: &str,
    texts: impl Iterator<Item = String>,
) -> BenchResult<String> {
    let folder = config.state.join("sites");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(BenchError::path("remove", &folder))?;
    }
    fs::create_dir_all(&folder).map_err(BenchError::path("make", &folder))?;
    for ((name, _), text) in config.hosts.iter().zip(texts) {
        let path = folder.join(format!("{name}.{extension}"));
        fs::write(&path, text).map_err(BenchError::path("write", &path))?;
    }
    Ok(folder.join(format!("*.{extension}")).display().to_string())
}

fn nginx(config: HostConfig<'_>) -> BenchResult<String> {
    let HostConfig { hosts, state, address, .. } = config;
    let (state, temporary) = (state.display(), temporary(state));
    // Twice as many places as names, as nginx's documentation asks.
    let places = (2 * hosts.len()).next_power_of_two().max(1024);
    let host_texts = hosts.iter().enumerate().map(|(number, (name, root))| {
        let root = root.display();
        // Options of the socket may appear only once.
        let backlog = if number == 0 { " backlog=4096" } else { "" };
        format!("    server {{ listen {address}{backlog}; server_name {name}; root {root}; }}\n")
    });
    let hosts = match config.files {
        ConfigFiles::One | ConfigFiles::Certificates => host_texts.collect::<String>(),
        ConfigFiles::EachHost => format!("    include {};\n", file_each(config, "conf", host_texts)?),
    };
    Ok(format!(
        "daemon off;
worker_processes 1;
pid {state}/nginx.pid;
error_log {state}/error.log crit;
events {{
    worker_connections 4096;
    use epoll;
}}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    server_names_hash_max_size {places};
    server_names_hash_bucket_size 128;
    {temporary}
{hosts}}}
"
    ))
}
