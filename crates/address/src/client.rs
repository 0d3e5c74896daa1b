//! The client of a connection.

use crate::listen_addr::UNIX;
use serde::Serialize;
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

/// The client of a connection, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// An address. An IPv4 address that was mapped into IPv6 counts as IPv4.
    Ip(IpAddr),
    /// A process of this machine, through a unix socket.
    Unix,
    /// A client behind a believed proxy that names no valid address. The client is in no network.
    Unknown,
}

impl Client {
    /// The client at an address, or at a unix socket.
    pub fn of(peer: Option<SocketAddr>) -> Self {
        peer.map_or(Self::Unix, |addr| Self::Ip(addr.ip().to_canonical()))
    }
}

impl From<IpAddr> for Client {
    fn from(addr: IpAddr) -> Self {
        Self::Ip(addr.to_canonical())
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(addr) => addr.fmt(f),
            Self::Unix => f.write_str(UNIX),
            Self::Unknown => f.write_str("-"),
        }
    }
}

impl Serialize for Client {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
