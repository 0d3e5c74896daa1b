//! The sites, and the servers with a configuration for the sites.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::network::BenchNetwork;
use crate::options::BenchOptions;
use crate::peers::nginx::temporary;
use crate::peers::{PeerServer, find_program};
use crate::{BenchError, BenchResult};

/// Folders of sites, each with one page. Hosts share the folders in turn, because a folder for each
/// host would take minutes to make and would not change the cost of a host.
const FOLDERS: usize = 100;
/// Bytes of the page.
const PAGE_BYTES: usize = 1024;

/// Hosts with their folders.
#[derive(Debug)]
pub struct HostSites {
    folder: TempDir,
    count: usize,
}

impl HostSites {
    /// The folders of `count` hosts.
    ///
    /// # Errors
    /// The folders cannot be created.
    pub fn new(count: usize) -> BenchResult<Self> {
        let folder = tempfile::tempdir().map_err(BenchError::thing("make", "a temporary folder"))?;
        let sites = Self { folder, count };
        for number in 0..count.min(FOLDERS) {
            let root = sites.root(number);
            fs::create_dir(&root).map_err(BenchError::path("make", &root))?;
            let page = root.join("index.html");
            fs::write(&page, vec![b'x'; PAGE_BYTES]).map_err(BenchError::path("write", &page))?;
        }
        // nginx gives up root and must be able to look inside.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(sites.state(), open).map_err(BenchError::path("open", sites.state()))?;
        Ok(sites)
    }

    /// How many hosts there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The name of a host.
    pub fn name(&self, number: usize) -> String {
        format!("site-{number}.example")
    }

    /// The folder for configurations and logs.
    pub fn state(&self) -> &Path {
        self.folder.path()
    }

    fn root(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("root-{}", number % FOLDERS))
    }
}

/// The command that serves `sites` at `address` on `cpu`.
pub(super) fn command(
    server: PeerServer,
    options: &BenchOptions,
    sites: &HostSites,
    address: SocketAddr,
    cpu: usize,
) -> BenchResult<Command> {
    let (file, text) = match server {
        PeerServer::Vermeil => ("vermeil.toml", vermeil(sites, address, cpu)),
        PeerServer::Nginx => ("nginx.conf", nginx(sites, address)),
    };
    let path = sites.state().join(file);
    fs::write(&path, text).map_err(BenchError::path("write", &path))?;
    Ok(match server {
        PeerServer::Vermeil => {
            let mut command = BenchNetwork::Loopback.server_command(&options.vermeil, cpu);
            command.args(["serve", "--config"]).arg(path);
            command
        }
        PeerServer::Nginx => {
            let program =
                find_program("nginx").ok_or(BenchError::Missing { program: "nginx", package: "nginx" })?;
            let mut command = BenchNetwork::Loopback.server_command(program, cpu);
            command.arg("-p").arg(sites.state()).arg("-c").arg(path);
            command.arg("-e").arg(sites.state().join("error.log"));
            command
        }
    })
}
fn vermeil(sites: &HostSites, address: SocketAddr, cpu: usize) -> String {
    let mut text =
        format!("cores = \"{cpu}-{cpu}\"\nlog = \"off\"\n\n[[listener]]\naddress = \"{address}\"\n");
    for number in 0..sites.count {
        let (name, root) = (sites.name(number), sites.root(number));
        let _infallible = write!(text, "\n[[host]]\nnames = [\"{name}\"]\nroot = \"{}\"\n", root.display());
    }
    text
}

fn nginx(sites: &HostSites, address: SocketAddr) -> String {
    let (state, temporary) = (sites.state().display(), temporary(sites.state()));
    // Twice as many places as names, as nginx's documentation asks.
    let places = (2 * sites.count).next_power_of_two().max(1024);
    let mut text = format!(
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
    keepalive_requests 1000000000;
    open_file_cache max=10000 inactive=300s;
    open_file_cache_valid 60s;
    server_names_hash_max_size {places};
    server_names_hash_bucket_size 128;
    {temporary}
"
    );
    for number in 0..sites.count {
        let (name, root) = (sites.name(number), sites.root(number));
        let root = root.display();
        // Options of the socket may appear only once.
        let backlog = if number == 0 { " backlog=4096" } else { "" };
        let _infallible =
            writeln!(text, "    server {{ listen {address}{backlog}; server_name {name}; root {root}; }}");
    }
    text + "}\n"
}
