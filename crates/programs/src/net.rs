//! Sockets for handlers, and clients for the programs that serve.
//!
//! A [`vermeil::TcpStream`] belongs to one core and the tasks there. These programs need more:
//! handlers with their own system calls, so that any core can serve a connection. [`Socket`] makes
//! non-blocking calls on any core. [`Readiness`], one per core, posts an event when a blocked
//! socket becomes ready.

mod client;
mod readiness;
mod socket;

pub use client::{ClosedLoop, read_http};
pub use readiness::Readiness;
pub use socket::{Socket, SocketWait};

use std::{io, net::SocketAddr, os::fd::OwnedFd};
use vermeil::{Handle, ListenOptions, listen};

/// A listening socket per core, all at `addr`; with port 0, at the port of the first socket.
///
/// # Errors
/// As [`listen`].
pub fn listeners(handle: &Handle, addr: SocketAddr) -> io::Result<(SocketAddr, Vec<OwnedFd>)> {
    let mut at = addr;
    let mut sockets = Vec::new();
    for _ in handle.cores() {
        let socket = listen(at, &ListenOptions::default())?;
        at = std::net::TcpListener::from(socket.try_clone()?).local_addr()?;
        sockets.push(socket);
    }
    Ok((at, sockets))
}
