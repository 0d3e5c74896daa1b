//! The sockets of one listening address.

use std::{io, os::fd::OwnedFd};
use vermeil_address::ListenAddr;

/// One address, and a socket on it for each core. More sockets if they come from a server that had
/// more cores.
#[derive(Debug)]
pub struct Listening {
    /// The address as configured.
    pub asked: ListenAddr,
    /// The address as bound, with the actual port or file.
    pub addr: ListenAddr,
    /// In the order of the cores. With more sockets than cores, the order begins again with the
    /// first core.
    pub sockets: Vec<OwnedFd>,
}

impl Listening {
    /// Duplicates the sockets.
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        let Self { asked, addr, sockets } = self;
        let sockets = sockets.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
        Ok(Self { asked: *asked, addr: *addr, sockets })
    }
}
