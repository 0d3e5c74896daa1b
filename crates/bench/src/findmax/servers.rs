//! The servers of the search, on one cpu with their PHP.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{CHILDREN, Options};
use crate::machine::Cpus;
use crate::network::Network;
use crate::peers::process::Process;
use crate::peers::{Setting, find_program, vermeil};
use crate::site::Site;
use crate::{Error, Result};

/// PHP, as Debian names it.
const FPM: (&str, &str) = ("php-fpm8.2", "php-fpm");

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// Vermeil with a pool of its own.
    Vermeil,
    /// nginx with php-fpm.
    Nginx,
}

/// A server that runs, with all it needs.
pub(super) struct Running {
    pub(super) url: String,
    /// In the order of stopping.
    processes: Vec<Process>,
}

impl Running {
    pub(super) fn stop(self) -> Result<()> {
        self.processes.into_iter().try_for_each(Process::stop)
    }
}

impl Server {
    /// Every server, in the order of the tables.
    pub const ALL: [Self; 2] = [Self::Vermeil, Self::Nginx];

    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vermeil => "vermeil-php",
            Self::Nginx => "nginx-php-fpm",
        }
    }

    /// Programs it needs, and the Debian packages that hold them.
    pub(super) fn needs(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Vermeil => &[FPM],
            Self::Nginx => &[("nginx", "nginx"), FPM],
        }
    }

    pub(super) fn start(self, options: &Options, site: &Site, cpus: Cpus) -> Result<Running> {
        let (network, address) = (&Network::Loopback, Network::Loopback.free_address()?);
        let (root, state) = (site.root(), site.state_folder(self.name())?);
        let setting = Setting { network, address, cpu: cpus.server, root: &root, state: &state };
        let processes = match self {
            Self::Vermeil => {
                let mut command = vermeil::command(setting, &options.vermeil, vermeil::Io::Epoll);
                command.args(["--php", "--php-children", &CHILDREN.to_string()]);
                vec![Process::start(self.name(), command, &state)?]
            }
            Self::Nginx => {
                let pool = site.state_folder("php-fpm")?;
                let fpm = Process::start("php-fpm", fpm(setting, &pool)?, &pool)?;
                vec![Process::start(self.name(), nginx(setting, &pool)?, &state)?, fpm]
            }
        };
        processes[0].wait_until_listening(network, address)?;
        Ok(Running { url: format!("http://{address}/"), processes })
    }
}

/// A pool as Vermeil starts its own: children that stay.
fn fpm(setting: Setting<'_>, pool: &Path) -> Result<Command> {
    let (program, package) = FPM;
    let found = find_program(program).ok_or(Error::Missing { program, package })?;
    let path = pool.join("fpm.conf");
    let folder = pool.display();
    let text = format!(
        "[global]
pid = {folder}/pid
error_log = {folder}/error.log
daemonize = no
[www]
user = www-data
group = www-data
listen = {folder}/socket
listen.mode = 0666
listen.backlog = 4096
pm = static
pm.max_children = {CHILDREN}
"
    );
    fs::write(&path, text).map_err(Error::path("write", &path))?;
    let mut command = setting.network.server_command(found, setting.cpu);
    command.arg("--nodaemonize").arg("--fpm-config").arg(path);
    Ok(command)
}

/// nginx as its documentation tunes it, with connections to PHP that are kept.
fn nginx(setting: Setting<'_>, pool: &Path) -> Result<Command> {
    let program = find_program("nginx").ok_or(Error::Missing { program: "nginx", package: "nginx" })?;
    let (state, root, address) = (setting.state.display(), setting.root.display(), setting.address);
    let pool = pool.display();
    let text = format!(
        "daemon off;
worker_processes 1;
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
    client_body_temp_path {state}/body;
    proxy_temp_path {state}/proxy;
    fastcgi_temp_path {state}/fastcgi;
    uwsgi_temp_path {state}/uwsgi;
    scgi_temp_path {state}/scgi;
    upstream php {{ server unix:{pool}/socket; keepalive {CHILDREN}; }}
    server {{
        listen {address} backlog=4096;
        root {root};
        index index.html index.php;
        location ~ \\.php$ {{
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_keep_conn on;
            fastcgi_buffer_size 16k;
            fastcgi_buffers 32 16k;
            fastcgi_pass php;
        }}
    }}
}}
"
    );
    let path = setting.state.join("nginx.conf");
    fs::write(&path, text).map_err(Error::path("write", &path))?;
    let mut command = setting.network.server_command(program, setting.cpu);
    command.arg("-p").arg(setting.state).arg("-c").arg(path).arg("-e").arg(setting.state.join("error.log"));
    Ok(command)
}
