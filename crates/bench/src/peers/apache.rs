//! Apache httpd with the event MPM, tuned for static files as its documentation says: one process,
//! no `.htaccess`, no log.
//!
//! Loads only the modules that a static site needs. The best way to send a body depends on the
//! size, so a bench tries all of [`ApacheSending`] and takes the best for each request.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::peers::{FastcgiPool, PeerSetting, find_program};
use crate::{BenchError, BenchResult};

/// Where Debian and Fedora keep the modules.
const MODULE_FOLDERS: [&str; 2] = ["/usr/lib/apache2/modules", "/usr/lib64/httpd/modules"];
/// The content types of extensions; from Debian's package media-types.
const TYPES: &str = "/etc/mime.types";
/// Threads of the one process: twice the connections of a run, because the event MPM closes idle
/// keep-alive connections as soon as every thread is busy.
const THREADS: usize = 128;

/// How Apache sends the body of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApacheSending {
    /// `EnableMMAP On`: mapped and written, Apache's default.
    #[default]
    Mmap,
    /// `EnableSendfile On`.
    Sendfile,
    /// Neither: read into memory and written.
    Copy,
}

impl ApacheSending {
    /// Every value.
    pub const ALL: [Self; 3] = [Self::Mmap, Self::Sendfile, Self::Copy];
}

impl fmt::Display for ApacheSending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mmap => "EnableMMAP On, EnableSendfile Off",
            Self::Sendfile => "EnableMMAP Off, EnableSendfile On",
            Self::Copy => "EnableMMAP Off, EnableSendfile Off",
        })
    }
}

/// Writes the configuration and returns the command that starts Apache with that configuration.
///
/// # Errors
/// When Apache is not installed or the configuration cannot be written.
pub fn command(setting: PeerSetting<'_>, sending: ApacheSending) -> BenchResult<Command> {
    start(setting, &["mpm_event", "authz_core"], &configuration(setting, sending))
}

/// The command for Apache in front of a pool of PHP on one cpu; Apache reuses as many connections
/// as the pool has children.
///
/// # Errors
/// When Apache is not installed or the configuration cannot be written.
pub fn php_command(setting: PeerSetting<'_>, pool: FastcgiPool<'_>) -> BenchResult<Command> {
    let (socket, children) = (pool.socket.display(), pool.children);
    let modules = ["mpm_event", "authz_core", "proxy", "proxy_fcgi"];
    let php = format!(
        "<Proxy \"unix:{socket}|fcgi://php/\">
    ProxySet enablereuse=on max={children}
</Proxy>
<FilesMatch \"\\.php$\">
    SetHandler \"proxy:unix:{socket}|fcgi://php/\"
</FilesMatch>
"
    );
    start(setting, &modules, &(configuration(setting, ApacheSending::Copy) + &php))
}

/// The folder of the modules.
///
/// # Errors
/// When Apache is not installed.
pub(crate) fn module_folder() -> BenchResult<&'static Path> {
    let missing = BenchError::Missing { program: "apache2", package: "apache2-bin" };
    MODULE_FOLDERS.iter().map(Path::new).find(|folder| folder.is_dir()).ok_or(missing)
}

/// The command that starts Apache with these modules and this configuration.
fn start(setting: PeerSetting<'_>, modules: &[&str], configuration: &str) -> BenchResult<Command> {
    let missing = || BenchError::Missing { program: "apache2", package: "apache2-bin" };
    let program = find_program("apache2").or_else(|| find_program("httpd")).ok_or_else(missing)?;
    let folder = module_folder()?;
    let load = |name: &str| format!("LoadModule {name}_module {}/mod_{name}.so\n", folder.display());
    let mut loads: String = modules.iter().copied().map(load).collect();
    // The module does not start without the list of types.
    if Path::new(TYPES).is_file() {
        loads += &format!("{}TypesConfig {TYPES}\n", load("mime"));
    }
    let path = setting.state.join("apache.conf");
    fs::write(&path, loads + configuration).map_err(BenchError::path("write", &path))?;
    let mut command = setting.network.server_command(program, setting.cpu);
    command.arg("-f").arg(path).arg("-D").arg("FOREGROUND");
    Ok(command)
}

fn configuration(setting: PeerSetting<'_>, sending: ApacheSending) -> String {
    let (mmap, sendfile) = match sending {
        ApacheSending::Mmap => ("On", "Off"),
        ApacheSending::Sendfile => ("Off", "On"),
        ApacheSending::Copy => ("Off", "Off"),
    };
    let state = setting.state.display();
    let root = setting.root.display();
    let address = setting.address;
    // Only root may change the user, and Apache refuses to serve as root.
    let user = if rustix::process::geteuid().is_root() { "User nobody\nGroup nogroup\n" } else { "" };
    format!(
        "{user}ServerRoot {state}
DefaultRuntimeDir {state}
PidFile {state}/apache.pid
ServerName localhost
Listen {address}
ListenBacklog 4096
ErrorLog {state}/error.log
LogLevel crit
StartServers 1
ServerLimit 1
ThreadLimit {THREADS}
ThreadsPerChild {THREADS}
MaxRequestWorkers {THREADS}
MinSpareThreads 1
MaxSpareThreads {THREADS}
MaxConnectionsPerChild 0
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 65
HostnameLookups Off
EnableMMAP {mmap}
EnableSendfile {sendfile}
DocumentRoot {root}
<Directory />
    Options FollowSymLinks
    AllowOverride None
    Require all granted
</Directory>
",
    )
}
