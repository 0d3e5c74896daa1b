//! The floor of an overloaded server: accept one connection, receive once, answer and close, then
//! the next connection. Each request takes four blocking calls and nothing else.
//!
//! Only the kernel's queue holds waiting connections, so its length, `--queue`, sets the waiting
//! time. The response's bytes are in `response.rs`.

use std::io;
use std::mem::MaybeUninit;
use std::net::TcpListener;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, accept_with, recv};

use crate::response::RepeatedResponse;

/// Bytes per receive: well above any load's requests (under 200 bytes).
const RECEIVE_BYTES: usize = 4096;

/// Serves until the process is killed.
pub(crate) fn run(listener: &TcpListener, response: &RepeatedResponse) -> io::Result<()> {
    loop {
        let socket = match accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(socket) => socket,
            Err(Errno::CONNABORTED | Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        let mut request = [MaybeUninit::<u8>::uninit(); RECEIVE_BYTES];
        if let Ok((_, 1..)) = recv(&socket, &mut request[..], RecvFlags::empty()) {
            // An error here is the client's fault.
            let _ = response.send(&socket, &mut 0);
        }
    }
}
