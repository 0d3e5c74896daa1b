//! The servers that a bench can start, each a child process in a separate process group.
//!
//! Every peer writes its configuration into a private folder, listens on the given address, runs on
//! the server's cpu only, and is stopped together with all processes of its group. Processes that
//! ran before are never touched.

pub mod apache;
pub mod echo;
pub mod floor;
pub mod fpm;
pub mod nginx;
pub mod process;
pub mod vermeil;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::network::{BenchNetwork, Spread};
use crate::size::BenchSize;
use crate::{BenchError, BenchResult};

/// The place and purpose of a peer.
#[derive(Clone, Copy, Debug)]
pub struct PeerSetting<'a> {
    /// The network to serve.
    pub network: &'a BenchNetwork,
    /// The address to listen on.
    pub address: SocketAddr,
    /// The cpu to use.
    pub cpu: usize,
    /// The folder to serve.
    pub root: &'a Path,
    /// The folder for the peer's configuration, log and state.
    pub state: &'a Path,
}

/// A pool of FastCGI processes, described for the server in front.
#[derive(Clone, Copy, Debug)]
pub struct FastcgiPool<'a> {
    /// The pool's socket.
    pub socket: &'a Path,
    /// The number of children; each serves one connection at a time.
    pub children: usize,
    /// Where the server runs.
    pub spread: Spread,
}

/// Finds `program` on the path or in Debian's folders of servers, because these folders are not on
/// the path of ordinary users.
pub fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(sbin)
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

/// Returns whether the `program` of a Debian `package` is installed. Without the program a full run
/// is impossible, and a run of the smoke size leaves the program out with a message.
///
/// # Errors
/// In a full run, if the program is not installed.
pub fn is_here(size: BenchSize, (program, package): (&'static str, &'static str)) -> BenchResult<bool> {
    match size {
        _ if find_program(program).is_some() => Ok(true),
        BenchSize::Full => Err(BenchError::Missing { program, package }),
        BenchSize::Smoke => {
            eprintln!("SKIPPED: {program} is not installed");
            Ok(false)
        }
    }
}

/// The servers of a bench of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerServer {
    /// Vermeil with a new user's configuration.
    Vermeil,
    /// nginx, tuned as its documentation says.
    Nginx,
}

impl PeerServer {
    /// Every server, in the order of the tables.
    pub const ALL: [Self; 2] = [Self::Vermeil, Self::Nginx];

    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vermeil => "vermeil",
            Self::Nginx => "nginx",
        }
    }

    /// The installed servers.
    ///
    /// # Errors
    /// As [`is_here`].
    pub fn here(size: BenchSize) -> BenchResult<Vec<Self>> {
        let nginx = is_here(size, ("nginx", "nginx"))?;
        Ok(Self::ALL.into_iter().filter(|server| nginx || *server == Self::Vermeil).collect())
    }
}
