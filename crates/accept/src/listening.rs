//! The sockets of one listening address.

use serde::{Deserialize, Serialize};
use std::{io, os::fd::OwnedFd};
use vermeil_address::ListenAddr;

/// The process that opened the sockets of an address, and decides about them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SocketKeeper {
    /// A server of this program.
    #[default]
    Server,
    /// The service manager, which keeps the sockets when the server ends.
    Manager,
}

/// One address, and a socket on it for each core. More sockets if the sockets come from a server
/// that had more cores.
#[derive(Debug)]
pub struct Listening {
    /// The address as configured.
    pub asked: ListenAddr,
    /// The address as bound, with the actual port or file.
    pub addr: ListenAddr,
    /// In the order of the cores. With more sockets than cores, the order begins again with the
    /// first core.
    pub sockets: Vec<OwnedFd>,
    /// The process that opened the sockets.
    pub keeper: SocketKeeper,
}

impl Listening {
    /// Duplicates the sockets.
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        let Self { asked, addr, sockets, keeper } = self;
        let sockets = sockets.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
        Ok(Self { asked: *asked, addr: *addr, sockets, keeper: *keeper })
    }
}
