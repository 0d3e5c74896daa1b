//! The servers with their configurations: TLS 1.2 and 1.3, one certificate, tickets as by default.
//!
//! nginx is tuned for static files as in the other benches, Apache too. h2o keeps its private keys
//! in a separate process, as by default.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use vermeil_ablation::{Mechanism, VARIABLE};

use super::TlsBench;
use super::keys::{KeyKind, ServerPair};
use crate::network::{BenchNetwork, Spread};
use crate::peers::apache::module_folder;
use crate::peers::nginx::temporary;
use crate::peers::process::PeerProcess;
use crate::peers::{find_program, is_here};
use crate::size::BenchSize;
use crate::{BenchError, BenchResult};

/// More connections than any part opens.
const CONNECTIONS_MAX: usize = 16_384;

/// Threads of Apache's process, as in the other benches.
const APACHE_THREADS: usize = 128;

/// The servers of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TlsServer {
    /// Vermeil with a new user's configuration.
    Vermeil,
    /// nginx as Debian ships it, with OpenSSL.
    Nginx,
    /// Apache as Debian ships it, with OpenSSL.
    Apache,
    /// h2o as Debian ships it, with OpenSSL.
    H2o,
}

/// A server that accepts connections.
pub(super) struct StartedServer {
    pub(super) process: PeerProcess,
    pub(super) address: SocketAddr,
}

/// The values in a configuration.
struct TlsSetting<'a> {
    address: SocketAddr,
    cpu: usize,
    spread: Spread,
    root: &'a Path,
    state: &'a Path,
    files: &'a ServerPair,
}

impl TlsServer {
    /// Every server, in the order of the tables.
    const ALL: [Self; 4] = [Self::Vermeil, Self::Nginx, Self::Apache, Self::H2o];

    /// The name in rows.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Vermeil => "vermeil",
            Self::Nginx => "nginx",
            Self::Apache => "apache",
            Self::H2o => "h2o",
        }
    }

    /// The required program and its Debian package.
    fn needs(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Vermeil => None,
            Self::Nginx => Some(("nginx", "nginx")),
            Self::Apache => Some(("apache2", "apache2-bin")),
            Self::H2o => Some(("h2o", "h2o")),
        }
    }

    /// The installed servers.
    ///
    /// # Errors
    /// As [`is_here`].
    pub(super) fn here(size: BenchSize) -> BenchResult<Vec<Self>> {
        let mut here = Vec::new();
        for server in Self::ALL {
            if server.needs().map_or(Ok(true), |needs| is_here(size, needs))? {
                here.push(server);
            }
        }
        Ok(here)
    }

    /// Starts the server with a key of `kind`.
    pub(super) fn start(
        self,
        bench: &TlsBench<'_>,
        kind: KeyKind,
        spread: Spread,
    ) -> BenchResult<StartedServer> {
        let network = BenchNetwork::Loopback;
        // Two of a server, with other keys, may run at once.
        let state = bench.site.state_folder(&format!("{}-{kind:?}", self.name()))?;
        let address = network.free_address()?;
        let setting = TlsSetting {
            address,
            cpu: bench.cpus.server,
            spread,
            root: &bench.site.root(),
            state: &state,
            files: bench.keys.of(kind),
        };
        let command = self.command(bench, &setting)?;
        let process = PeerProcess::start(self.name(), command, &state)?;
        process.wait_until_listening(&network, address)?;
        Ok(StartedServer { process, address })
    }

    fn command(self, bench: &TlsBench<'_>, setting: &TlsSetting<'_>) -> BenchResult<Command> {
        let text = match self {
            Self::Vermeil => vermeil(setting),
            Self::Nginx => nginx(setting),
            Self::Apache => apache(setting)?,
            Self::H2o => h2o(setting),
        };
        let path = setting.state.join("server.conf");
        fs::write(&path, text).map_err(BenchError::path("write", &path))?;
        let program = match self.needs() {
            None => bench.options.vermeil.clone(),
            Some((program, package)) => {
                find_program(program).ok_or(BenchError::Missing { program, package })?
            }
        };
        let network = BenchNetwork::Loopback;
        let mut command = network.spread_command(program, setting.cpu, setting.spread);
        match self {
            Self::Vermeil => {
                command.env(VARIABLE, bench.without.map_or("", Mechanism::name));
                command.args(["serve", "--config"]).arg(path)
            }
            Self::Nginx => {
                command.arg("-p").arg(setting.state).arg("-e").arg(setting.state.join("error.log"));
                command.arg("-c").arg(path)
            }
            Self::Apache => command.arg("-f").arg(path).args(["-D", "FOREGROUND"]),
            Self::H2o => command.arg("-c").arg(path),
        };
        Ok(command)
    }
}

/// For servers with a thread or a worker for each cpu.
fn workers(spread: Spread) -> usize {
    match spread {
        Spread::OneCpu => 1,
        Spread::AllCpus => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

fn vermeil(TlsSetting { address, cpu, spread, root, files, .. }: &TlsSetting<'_>) -> String {
    let cores = match spread {
        Spread::OneCpu => format!("cores = \"{cpu}-{cpu}\"\n"),
        Spread::AllCpus => String::new(),
    };
    let ServerPair { certificate, key } = files;
    format!(
        "{cores}log = \"off\"
[limits]
connections_max = {CONNECTIONS_MAX}
[[listener]]
address = \"{address}\"
tls = true
[[host]]
default = true
root = \"{}\"
certificate = \"{}\"
key = \"{}\"
",
        root.display(),
        certificate.display(),
        key.display()
    )
}

fn nginx(TlsSetting { address, spread, root, state, files, .. }: &TlsSetting<'_>) -> String {
    let (workers, temporary) = (workers(*spread), temporary(state));
    let (state, root) = (state.display(), root.display());
    let (certificate, key) = (files.certificate.display(), files.key.display());
    format!(
        "daemon off;
worker_processes {workers};
pid {state}/nginx.pid;
error_log {state}/error.log crit;
worker_rlimit_nofile 20000;
events {{
    worker_connections {CONNECTIONS_MAX};
    use epoll;
    multi_accept on;
}}
http {{
    access_log off;
    tcp_nodelay on;
    keepalive_timeout 65;
    keepalive_requests 1000000000;
    open_file_cache max=10000 inactive=300s;
    open_file_cache_valid 60s;
    open_file_cache_min_uses 1;
    {temporary}
    server {{
        listen {address} ssl backlog=1024;
        root {root};
        ssl_certificate {certificate};
        ssl_certificate_key {key};
        ssl_protocols TLSv1.2 TLSv1.3;
    }}
}}
"
    )
}

fn apache(TlsSetting { address, root, state, files, .. }: &TlsSetting<'_>) -> BenchResult<String> {
    let folder = module_folder()?.display();
    let mut text = String::new();
    for name in ["mpm_event", "authz_core", "ssl"] {
        let _infallible = writeln!(text, "LoadModule {name}_module {folder}/mod_{name}.so");
    }
    // Only root may change the user, and Apache refuses to serve as root.
    if rustix::process::geteuid().is_root() {
        text += "User nobody\nGroup nogroup\n";
    }
    let (state, root) = (state.display(), root.display());
    let (certificate, key) = (files.certificate.display(), files.key.display());
    let _infallible = write!(
        text,
        "ServerRoot {state}
DefaultRuntimeDir {state}
PidFile {state}/apache.pid
ServerName localhost
Listen {address}
ListenBacklog 4096
ErrorLog {state}/error.log
LogLevel crit
StartServers 1
ServerLimit 1
ThreadLimit {APACHE_THREADS}
ThreadsPerChild {APACHE_THREADS}
MaxRequestWorkers {APACHE_THREADS}
AsyncRequestWorkerFactor {APACHE_THREADS}
MinSpareThreads 1
MaxSpareThreads {APACHE_THREADS}
MaxConnectionsPerChild 0
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 65
SSLEngine on
SSLProtocol -all +TLSv1.2 +TLSv1.3
SSLCertificateFile {certificate}
SSLCertificateKeyFile {key}
DocumentRoot {root}
<Directory />
    Options FollowSymLinks
    AllowOverride None
    Require all granted
</Directory>
"
    );
    Ok(text)
}

fn h2o(TlsSetting { address, spread, root, state, files, .. }: &TlsSetting<'_>) -> String {
    let (workers, root, state) = (workers(*spread), root.display(), state.display());
    let (certificate, key) = (files.certificate.display(), files.key.display());
    let user = if rustix::process::geteuid().is_root() { "user: nobody\n" } else { "" };
    format!(
        "{user}num-threads: {workers}
max-connections: {CONNECTIONS_MAX}
error-log: {state}/error.log
http1-request-timeout: 65
listen:
  host: {}
  port: {}
  ssl:
    certificate-file: {certificate}
    key-file: {key}
    minimum-version: TLSv1.2
hosts:
  default:
    paths:
      \"/\":
        file.dir: {root}
",
        address.ip(),
        address.port()
    )
}
