//! The servers a bench can start, each a child process in a process group of its own.
//!
//! Every peer writes its configuration into a private folder, listens where it is told, runs on the server's cpu only,
//! and is stopped with everything it started. Nothing that was running before is ever touched.

pub mod apache;
pub mod echo;
pub mod floor;
pub mod fpm;
pub mod nginx;
pub mod process;
pub mod vermeil;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::network::{Network, Spread};
use crate::size::Size;
use crate::{Error, Result};

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

/// A pool of processes that answer by FastCGI, as a server in front of it needs to know it.
#[derive(Clone, Copy, Debug)]
pub struct Pool<'a> {
    /// Where it listens.
    pub socket: &'a Path,
    /// How many there are; each serves one connection at a time.
    pub children: usize,
    /// Where the server runs.
    pub spread: Spread,
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

/// Whether the `program` of a Debian `package` is installed. Where it is not, a full run cannot be made, and one of the smoke
/// size goes without it, loudly.
///
/// # Errors
/// In a full run, when it is not.
pub fn is_here(size: Size, (program, package): (&'static str, &'static str)) -> Result<bool> {
    match size {
        _ if find_program(program).is_some() => Ok(true),
        Size::Full => Err(Error::Missing { program, package }),
        Size::Smoke => {
            eprintln!("SKIPPED: {program} is not installed");
            Ok(false)
        }
    }
}

/// The servers of a bench of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// Vermeil, as a stranger would start it.
    Vermeil,
    /// nginx, as its documentation tunes it.
    Nginx,
}

impl Server {
    /// Every server, in the order of the tables.
    pub const ALL: [Self; 2] = [Self::Vermeil, Self::Nginx];

    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vermeil => "vermeil",
            Self::Nginx => "nginx",
        }
    }

    /// Those that are installed.
    ///
    /// # Errors
    /// As [`is_here`].
    pub fn here(size: Size) -> Result<Vec<Self>> {
        let nginx = is_here(size, ("nginx", "nginx"))?;
        Ok(Self::ALL.into_iter().filter(|server| nginx || *server == Self::Vermeil).collect())
    }
}
