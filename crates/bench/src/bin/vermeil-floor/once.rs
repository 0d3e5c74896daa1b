//! The floor of an overloaded server: accepts one connection, receives once, answers, closes, and
//! takes the next connection. Each request takes these four calls and nothing else.
//!
//! Only the kernel's queue holds waiting connections, so the length of that queue (`--queue`) sets
//! the waiting time. The response's bytes are in `response.rs`.

use std::io;
use std::mem::MaybeUninit;
use std::net::TcpListener;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, accept_with, recv};

use crate::response::{RepeatedResponse, SendProgress};

/// Bytes per receive: well above the requests of any load (under 200 bytes).
const RECEIVE_BYTES: usize = 4096;

/// Serves until the process is killed.
///
/// # Errors
/// The kernel refuses to accept, or the response does not fit a send buffer.
pub(crate) fn run(listener: &TcpListener, response: &RepeatedResponse) -> io::Result<()> {
    loop {
        let socket = match accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(socket) => socket,
            Err(Errno::CONNABORTED | Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        let mut request = [MaybeUninit::<u8>::uninit(); RECEIVE_BYTES];
        if let Ok((_, 1..)) = recv(&socket, &mut request[..], RecvFlags::empty()) {
            match response.send(&socket, &mut 0) {
                // A wait for room would hold up all other clients.
                Ok(SendProgress::Blocked) => {
                    return Err(io::Error::other(
                        "the response does not fit the socket's send buffer: use a smaller --body",
                    ));
                }
                // An error means that the client has closed the connection.
                Ok(SendProgress::Done) | Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpStream;

    use super::*;

    /// Regression: the floor closed the connection after a part of the response.
    #[test]
    fn response_beyond_send_buffer_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let mut client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        client.write_all(b"a request").expect("sent");
        let response = RepeatedResponse::new(200, "", 100, 64 << 20, None).expect("a valid response");
        let error = run(&listener, &response).expect_err("no room for 64 MB");
        assert!(error.to_string().contains("use a smaller --body"), "{error}");
    }
}
