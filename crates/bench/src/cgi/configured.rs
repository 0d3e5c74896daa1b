//! The configurations of the servers.

use std::net::SocketAddr;
use std::path::Path;

use super::servers::{CgiServer, WORKERS};
use crate::peers::nginx::temporary;

/// Where Debian keeps Apache's modules.
const MODULES: &str = "/usr/lib/apache2/modules";

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Where a server finds and leaves things.
#[derive(Clone, Copy)]
pub(super) struct ServerPlaces<'a> {
    pub(super) root: &'a Path,
    pub(super) state: &'a Path,
    pub(super) address: SocketAddr,
}

pub(super) fn apache(server: CgiServer, ServerPlaces { root, state, address }: ServerPlaces<'_>) -> String {
    let (root, state) = (root.display(), state.display());
    let load = |name: &str| format!("LoadModule {name}_module {MODULES}/mod_{name}.so\n");
    let module = if server == CgiServer::ApacheCgid { "cgid" } else { "cgi" };
    let loads: String = ["mpm_prefork", "authz_core", module].map(load).concat();
    let socket = match server {
        CgiServer::ApacheCgid => format!("ScriptSock {state}/cgid.sock\n"),
        _ => String::new(),
    };
    // Only root may change the user, and Apache refuses to serve as root.
    let user = if is_root() { "User nobody\nGroup nogroup\n" } else { "" };
    format!(
        "{loads}{user}{socket}ServerRoot {state}
DefaultRuntimeDir {state}
PidFile {state}/apache.pid
ServerName localhost
Listen {address}
ErrorLog {state}/error.log
LogLevel crit
StartServers {WORKERS}
MinSpareServers {WORKERS}
MaxSpareServers {WORKERS}
MaxRequestWorkers {WORKERS}
MaxConnectionsPerChild 0
KeepAlive On
MaxKeepAliveRequests 0
DocumentRoot {root}
<Directory />
    AllowOverride None
    Require all granted
</Directory>
<Directory {root}/cgi-bin>
    Options ExecCGI
    SetHandler cgi-script
</Directory>
"
    )
}

/// Errors go to standard error, because lighttpd opens a log only after giving up root. The table
/// of descriptors has the configured size, which must be enough for the descriptors of a fat server
/// too.
pub(super) fn lighttpd(ServerPlaces { root, state: _, address }: ServerPlaces<'_>) -> String {
    let user = if is_root() { "server.username = \"nobody\"\nserver.groupname = \"nogroup\"\n" } else { "" };
    format!(
        "{user}server.document-root = \"{}\"
server.bind = \"{}\"
server.port = {}
server.modules = ( \"mod_cgi\" )
server.max-keep-alive-requests = 1000000000
server.max-fds = 20000
$HTTP[\"url\"] =~ \"^/cgi-bin/\" {{
    cgi.assign = ( \"\" => \"\" )
}}
",
        root.display(),
        address.ip(),
        address.port()
    )
}

pub(super) fn nginx(ServerPlaces { root, state, address }: ServerPlaces<'_>) -> String {
    let (root, state, temporary) = (root.display(), state.display(), temporary(state));
    format!(
        "daemon off;
worker_processes 1;
pid {state}/nginx.pid;
error_log {state}/error.log crit;
events {{
    worker_connections 20000;
}}
http {{
    access_log off;
    keepalive_requests 1000000000;
    {temporary}
    server {{
        listen {address};
        root {root};
        location /cgi-bin/ {{
            fastcgi_pass unix:{state}/fcgiwrap.sock;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_param SCRIPT_NAME $fastcgi_script_name;
            fastcgi_param DOCUMENT_ROOT $document_root;
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param CONTENT_LENGTH $content_length;
            fastcgi_param CONTENT_TYPE $content_type;
            fastcgi_param REQUEST_URI $request_uri;
            fastcgi_param SERVER_PROTOCOL $server_protocol;
            fastcgi_param GATEWAY_INTERFACE CGI/1.1;
            fastcgi_param SERVER_SOFTWARE nginx;
            fastcgi_param REMOTE_ADDR $remote_addr;
            fastcgi_param REMOTE_PORT $remote_port;
            fastcgi_param SERVER_ADDR $server_addr;
            fastcgi_param SERVER_PORT $server_port;
            fastcgi_param SERVER_NAME $server_name;
        }}
    }}
}}
"
    )
}
