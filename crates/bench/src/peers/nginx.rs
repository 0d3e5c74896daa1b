//! nginx, tuned for static files as its documentation says: one worker, open_file_cache, no log.
//!
//! The way to send a body is the only option without a best value for every size, so a bench tries
//! all of [`NginxSending`] and takes the best for each request.

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::network::Spread;
use crate::peers::{FastcgiPool, PeerSetting, find_program};
use crate::{BenchError, BenchResult};

/// Which content type an extension has.
const TYPES: &str = "/etc/nginx/mime.types";

/// Connections that the listeners queue: as many as one core's listener of Vermeil.
const BACKLOG: u32 = 1024;

/// How nginx sends the body of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NginxSending {
    /// `sendfile on`: a head, then the file.
    #[default]
    Sendfile,
    /// `sendfile on; tcp_nopush on`: the head waits for the file, in full packets.
    SendfileNopush,
    /// `sendfile off`: read into memory, one write of head and body.
    Copy,
}

impl NginxSending {
    /// Every value.
    pub const ALL: [Self; 3] = [Self::Sendfile, Self::SendfileNopush, Self::Copy];
}

impl fmt::Display for NginxSending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sendfile => "sendfile on, tcp_nopush off",
            Self::SendfileNopush => "sendfile on, tcp_nopush on",
            Self::Copy => "sendfile off",
        })
    }
}

/// Writes the configuration and returns the command that starts nginx with that configuration.
///
/// # Errors
/// When nginx is not installed or the configuration cannot be written.
pub fn command(setting: PeerSetting<'_>, sending: NginxSending) -> BenchResult<Command> {
    start(setting, Spread::OneCpu, configuration(setting, sending))
}

/// As [`command`], and also listens at `http2` for HTTP/2 without TLS.
///
/// # Errors
/// As for [`command`].
pub fn both_versions_command(
    setting: PeerSetting<'_>,
    http2: SocketAddr,
    sending: NginxSending,
) -> BenchResult<Command> {
    let listen = format!("listen {} backlog={BACKLOG};", setting.address);
    let both = format!("{listen}\n        listen {http2} http2 backlog={BACKLOG};");
    start(setting, Spread::OneCpu, configuration(setting, sending).replace(&listen, &both))
}

/// The command for nginx in front of a pool of PHP; each worker keeps `kept` connections.
///
/// A child serves one connection while the connection is open, and nginx opens more connections
/// than it keeps. The surplus connections wait in the pool's backlog until a kept connection is
/// closed, possibly forever. For this reason `kept` is only for loads with no more users than
/// children; with 0 each request has a separate connection, as by default.
///
/// # Errors
/// When nginx is not installed or the configuration cannot be written.
pub fn php_command(setting: PeerSetting<'_>, pool: FastcgiPool<'_>, kept: usize) -> BenchResult<Command> {
    let (state, root, address) = (setting.state.display(), setting.root.display(), setting.address);
    let temporary = temporary(setting.state);
    let (socket, workers) = (pool.socket.display(), workers(pool.spread));
    let (keepalive, keep_conn) =
        if kept == 0 { (String::new(), "off") } else { (format!("keepalive {kept};"), "on") };
    let text = format!(
        "daemon off;
worker_processes {workers};
pid {state}/nginx.pid;
error_log {state}/error.log crit;
events {{ worker_connections 4096; multi_accept on; }}
http {{
    include /etc/nginx/mime.types;
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_timeout 65;
    keepalive_requests 1000000000;
    open_file_cache max=10000 inactive=300s;
    open_file_cache_valid 60s;
    {temporary}
    upstream php {{ server unix:{socket}; {keepalive} }}
    server {{
        listen {address} backlog={BACKLOG};
        root {root};
        index index.html index.php;
        location ~ \\.php$ {{
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_keep_conn {keep_conn};
            fastcgi_buffer_size 16k;
            fastcgi_buffers 32 16k;
            fastcgi_pass php;
        }}
    }}
}}
"
    );
    start(setting, pool.spread, text)
}

/// The command for nginx in front of a pool of PHP, as Debian ships nginx: its `nginx.conf`, and
/// its site with the lines of `snippets/fastcgi-php.conf`. A worker for each cpu, and no access
/// log.
///
/// # Errors
/// When nginx is not installed or the configuration cannot be written.
pub fn debian_php_command(setting: PeerSetting<'_>, pool: FastcgiPool<'_>) -> BenchResult<Command> {
    let (state, root, address) = (setting.state.display(), setting.root.display(), setting.address);
    let temporary = temporary(setting.state);
    let (socket, workers) = (pool.socket.display(), workers(pool.spread));
    let text = format!(
        "daemon off;
worker_processes {workers};
pid {state}/nginx.pid;
error_log {state}/error.log;
events {{ worker_connections 768; }}
http {{
    sendfile on;
    tcp_nopush on;
    types_hash_max_size 2048;
    include /etc/nginx/mime.types;
    default_type application/octet-stream;
    access_log off;
    gzip on;
    {temporary}
    server {{
        listen {address};
        root {root};
        index index.html index.htm index.nginx-debian.html index.php;
        server_name _;
        location / {{ try_files $uri $uri/ =404; }}
        location ~ \\.php$ {{
            fastcgi_split_path_info ^(.+?\\.php)(/.*)$;
            try_files $fastcgi_script_name =404;
            set $path_info $fastcgi_path_info;
            fastcgi_param PATH_INFO $path_info;
            fastcgi_index index.php;
            include /etc/nginx/fastcgi.conf;
            fastcgi_pass unix:{socket};
        }}
    }}
}}
"
    );
    start(setting, pool.spread, text)
}

/// nginx's folders for data that does not fit into its memory, because nginx makes the folders when
/// it starts, used or not.
pub fn temporary(state: &Path) -> String {
    let folder = |of: &str| format!("{of}_temp_path {}/{of};", state.display());
    ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(folder).join(" ")
}

/// Workers: one per cpu.
fn workers(spread: Spread) -> &'static str {
    match spread {
        Spread::OneCpu => "1",
        Spread::AllCpus => "auto",
    }
}

/// The command that starts nginx with this configuration.
fn start(setting: PeerSetting<'_>, spread: Spread, configuration: String) -> BenchResult<Command> {
    let program = find_program("nginx").ok_or(BenchError::Missing { program: "nginx", package: "nginx" })?;
    let path = setting.state.join("nginx.conf");
    fs::write(&path, configuration).map_err(BenchError::path("write", &path))?;
    let mut command = setting.network.spread_command(program, setting.cpu, spread);
    command.arg("-p").arg(setting.state).arg("-c").arg(path).arg("-e").arg(setting.state.join("error.log"));
    Ok(command)
}

fn configuration(setting: PeerSetting<'_>, sending: NginxSending) -> String {
    let (sendfile, nopush) = match sending {
        NginxSending::Sendfile => ("on", "off"),
        NginxSending::SendfileNopush => ("on", "on"),
        NginxSending::Copy => ("off", "off"),
    };
    // A mask is read from the right, one digit for each cpu.
    let mask = format!("1{}", "0".repeat(setting.cpu));
    let types = if Path::new(TYPES).is_file() { format!("include {TYPES};") } else { String::new() };
    let state = setting.state.display();
    let temporary = temporary(setting.state);
    let root = setting.root.display();
    let address = setting.address;
    format!(
        "daemon off;
worker_processes 1;
worker_cpu_affinity {mask};
pid {state}/nginx.pid;
error_log {state}/error.log crit;
events {{
    worker_connections 4096;
    use epoll;
    multi_accept on;
}}
http {{
    {types}
    access_log off;
    log_not_found off;
    sendfile {sendfile};
    tcp_nopush {nopush};
    tcp_nodelay on;
    keepalive_timeout 65;
    keepalive_requests 1000000000;
    open_file_cache max=10000 inactive=300s;
    open_file_cache_valid 60s;
    open_file_cache_min_uses 1;
    open_file_cache_errors on;
    {temporary}
    server {{
        listen {address} backlog={BACKLOG};
        root {root};
    }}
}}
",
    )
}
