//! The servers with their configurations: two hosts, one with a rate that no client reaches, and
//! room for all clients.

use std::fs;
use std::process::Command;

use super::{CASES, RateHost};
use crate::options::BenchOptions;
use crate::peers::nginx::temporary;
use crate::peers::{PeerServer, PeerSetting, find_program};
use crate::{BenchError, BenchResult};

/// Requests a second of a client: more than a server answers, so no request waits.
const RATE: usize = 1_000_000;

/// Megabytes for the counts of nginx: a count takes 128 bytes, and half of the memory stays free.
const NGINX_ZONE_MB: usize = 32;

/// The command that starts `server`.
pub(super) fn command(
    server: PeerServer,
    options: &BenchOptions,
    setting: PeerSetting<'_>,
) -> BenchResult<Command> {
    let (file, text) = match server {
        PeerServer::Vermeil => ("vermeil.toml", vermeil(setting)),
        PeerServer::Nginx => ("nginx.conf", nginx(setting)),
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

fn vermeil(setting: PeerSetting<'_>) -> String {
    let PeerSetting { address, cpu, root, .. } = setting;
    let (root, clients) = (root.display(), CASES.map(|case| case.clients).into_iter().max().unwrap_or(0));
    let [free, rated] = RateHost::ALL.map(RateHost::name);
    format!(
        "cores = \"{cpu}-{cpu}\"
log = \"off\"
[limits]
rated_clients_max = {clients}
[proxies]
from = [\"127.0.0.1\"]
[[listener]]
address = \"{address}\"
[[host]]
names = [\"{free}\"]
root = \"{root}\"
[[host]]
names = [\"{rated}\"]
root = \"{root}\"
access = {{ rate = {{ requests = {RATE}, per = \"1s\", burst = {RATE} }} }}
"
    )
}

fn nginx(setting: PeerSetting<'_>) -> String {
    let PeerSetting { address, root, state, .. } = setting;
    let (root, temporary) = (root.display(), temporary(state));
    let state = state.display();
    let [free, rated] = RateHost::ALL.map(RateHost::name);
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
    sendfile off;
    tcp_nodelay on;
    keepalive_timeout 65;
    keepalive_requests 1000000000;
    open_file_cache max=10000 inactive=300s;
    open_file_cache_valid 60s;
    open_file_cache_min_uses 1;
    {temporary}
    set_real_ip_from 127.0.0.1;
    real_ip_header X-Forwarded-For;
    limit_req_zone $binary_remote_addr zone=clients:{NGINX_ZONE_MB}m rate={RATE}r/s;
    server {{
        listen {address} backlog=1024;
        server_name {free};
        root {root};
    }}
    server {{
        listen {address};
        server_name {rated};
        root {root};
        limit_req zone=clients burst={RATE} nodelay;
    }}
}}
"
    )
}
