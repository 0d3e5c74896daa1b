//! The servers a bench can start, each a child process in a process group of its own.
//!
//! Every peer writes its configuration into a private folder, listens where it is told, runs on the server's cpu only,
//! and is stopped with everything it started. Nothing that was running before is ever touched.

pub mod apache;
pub mod floor;
pub mod fpm;
pub mod nginx;
pub mod process;
pub mod vermeil;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::network::Network;

/// Where and for what a peer is started.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// The network it serves on.
    pub network: &'a Network,
    /// The address it listens on.
    pub address: SocketAddr,
    /// The cpu it may use.
    pub cpu: usize,
    /// The folder it serves.
    pub root: &'a Path,
    /// The folder for its configuration, log and state.
    pub state: &'a Path,
}

/// Finds `program` on the path or where Debian keeps servers, which is not on the path of ordinary users.
pub fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(sbin)
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}
