//! The servers with their configurations: the same media types, the same level, the same shortest
//! content.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::CONNECTIONS;
use super::work::{CompressionCase, CompressionWork};
use crate::options::BenchOptions;
use crate::peers::nginx::temporary;
use crate::peers::{PeerServer, PeerSetting, find_program};
use crate::{BenchError, BenchResult};

/// The command that starts `server` for `case`, with the pool of PHP at `socket`.
pub(super) fn command(
    server: PeerServer,
    options: &BenchOptions,
    setting: PeerSetting<'_>,
    case: &CompressionCase,
    socket: Option<&Path>,
) -> BenchResult<Command> {
    let (file, text) = match server {
        PeerServer::Vermeil => ("vermeil.toml", vermeil(setting, case, socket)),
        PeerServer::Nginx => ("nginx.conf", nginx(setting, case, socket)),
    };
    let path = setting.state.join(file);
    fs::write(&path, text).map_err(BenchError::path("write", &path))?;
    Ok(match server {
        PeerServer::Vermeil => {
            let mut command = setting.network.server_command(&options.vermeil, setting.cpu);
            command.args(["serve", "--config"]).arg(path);
            command
        }
        PeerServer::Nginx => {
            let program =
                find_program("nginx").ok_or(BenchError::Missing { program: "nginx", package: "nginx" })?;
            let mut command = setting.network.server_command(program, setting.cpu);
            command.arg("-p").arg(setting.state).arg("-c").arg(path);
            command.arg("-e").arg(setting.state.join("error.log"));
            command
        }
    })
}

fn vermeil(setting: PeerSetting<'_>, case: &CompressionCase, socket: Option<&Path>) -> String {
    let PeerSetting { address, cpu, root, .. } = setting;
    let (coding, level, root) = (case.coding, case.level, root.display());
    let level_key = match coding {
        "br" => "brotli_level",
        "zstd" => "zstd_level",
        _ => "gzip_level",
    };
    let mut text = format!(
        "cores = \"{cpu}-{cpu}\"
log = \"off\"
[[listener]]
address = \"{address}\"
"
    );
    if matches!(case.work, CompressionWork::Anew | CompressionWork::Beside) {
        text += "[compression]\ncache_bytes = \"0\"\n";
    }
    if let Some(socket) = socket {
        let socket = socket.display();
        let _infallible = write!(
            text,
            "[php]\nsource = \"unix:{socket}\"\nchildren = {CONNECTIONS}\nkept_max = {CONNECTIONS}\n"
        );
    }
    let php = socket.is_some();
    let _infallible = write!(
        text,
        "[[host]]\ndefault = true\nroot = \"{root}\"\nphp = {php}\n\
         compress = {{ types = [\"text/html\"], codings = [\"{coding}\"], {level_key} = {level} }}\n"
    );
    text
}

fn nginx(setting: PeerSetting<'_>, case: &CompressionCase, socket: Option<&Path>) -> String {
    let PeerSetting { address, root, state, .. } = setting;
    let (level, root, temporary) = (case.level, root.display(), temporary(state));
    let state = state.display();
    let (upstream, location) = match socket {
        None => (String::new(), String::new()),
        Some(socket) => (
            format!("upstream php {{ server unix:{}; keepalive {CONNECTIONS}; }}", socket.display()),
            "location ~ \\.php$ {
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_keep_conn on;
            fastcgi_buffer_size 16k;
            fastcgi_buffers 32 16k;
            fastcgi_pass php;
        }"
            .to_owned(),
        ),
    };
    format!(
        "daemon off;
worker_processes 1;
pid {state}/nginx.pid;
error_log {state}/error.log crit;
events {{
    worker_connections 4096;
    use epoll;
    multi_accept on;
}}
http {{
    include /etc/nginx/mime.types;
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_timeout 65;
    keepalive_requests 1000000000;
    open_file_cache max=10000 inactive=300s;
    open_file_cache_valid 60s;
    open_file_cache_min_uses 1;
    gzip on;
    gzip_comp_level {level};
    gzip_min_length 1024;
    gzip_vary on;
    {temporary}
    {upstream}
    server {{
        listen {address} backlog=1024;
        root {root};
        {location}
    }}
}}
"
    )
}
