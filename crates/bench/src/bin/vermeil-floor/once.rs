//! The floor of a server that is asked for more than it can do: one connection after the other is accepted, received from
//! once, answered and closed: four blocking calls and nothing else.
//!
//! The kernel's queue is all that waits, so its length, `--queue`, decides how long. Owns no bytes: see `response.rs`.

use std::io;
use std::mem::MaybeUninit;
use std::net::TcpListener;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, accept_with, recv};

use crate::response::Response;

/// Bytes per receive: well above any load's requests (under 200 bytes).
const RECEIVE_BYTES: usize = 4096;

/// Serves until the process is killed.
pub(crate) fn run(listener: &TcpListener, response: &Response) -> io::Result<()> {
    loop {
        let socket = match accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(socket) => socket,
            Err(Errno::CONNABORTED | Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        let mut request = [MaybeUninit::<u8>::uninit(); RECEIVE_BYTES];
        if let Ok((_, 1..)) = recv(&socket, &mut request[..], RecvFlags::empty()) {
            // What goes wrong now is the client's.
            let _ = response.send(&socket, &mut 0);
        }
    }
}
