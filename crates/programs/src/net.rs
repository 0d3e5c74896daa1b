//! Sockets for handlers, and clients for the programs that serve.
//!
//! A [`vermeil::TcpStream`] belongs to one core and its tasks. These programs want more: handlers that do their
//! own system calls, so that a connection can be served on any core. [`Socket`] makes non-blocking calls wherever it is
//! used, and [`Readiness`], one per core, posts an event when a socket that had nothing to give has.

mod client;
mod readiness;
mod socket;

pub use client::{Load, read_http};
pub use readiness::Readiness;
pub use socket::{Socket, Wait};

use std::{io, net::SocketAddr, os::fd::OwnedFd};
use vermeil::{Handle, ListenOptions, listen};

/// One listening socket per core, all at `addr`; with port 0, at the one the first was given.
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
