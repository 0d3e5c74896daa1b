//! Starts outgoing connections.
//!
//! Makes the sockets of clients: non-blocking, closed on exec, `TCP_NODELAY`. The driver waits for
//! the other side ([`Driver::poll_connected`](crate::Driver::poll_connected)). Tested here and in
//! `tests/suite/connecting.rs`.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::sockopt::{set_ipv6_v6only, set_socket_recv_buffer_size, set_tcp_nodelay, socket_error};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, ipproto, socket_with,
};

/// Options of a connection.
#[derive(Debug, Clone, Default)]
pub struct ConnectOptions {
    /// The local address. Port 0 lets the kernel choose when the destination is known, so that
    /// destinations share local ports (`IP_BIND_ADDRESS_NO_PORT`). Default: the kernel chooses.
    pub local: Option<SocketAddr>,
    /// Bytes that may wait unread in the kernel (`SO_RCVBUF`, which the kernel doubles), set before
    /// connecting so that the window never exceeds this size. Default: the kernel's automatic size.
    pub recv_buffer_bytes: Option<usize>,
}

/// The state after the start of a connection.
#[derive(Debug)]
pub enum Connecting {
    /// The connection is established.
    Done(OwnedFd),
    /// The other side has not answered yet: for
    /// [`Driver::add_connecting`](crate::Driver::add_connecting).
    UnderWay(OwnedFd),
}

/// Starts a TCP connection to `addr`.
///
/// # Errors
/// Immediate errors of socket(2), bind(2) or connect(2): no descriptors or local ports left
/// (`AddrNotAvailable`), no route. A refusal usually comes later.
pub fn connect_tcp(addr: SocketAddr, options: &ConnectOptions) -> io::Result<Connecting> {
    let family = if addr.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = stream_socket(family, Some(ipproto::TCP))?;
    set_tcp_nodelay(&socket, true)?;
    if let Some(bytes) = options.recv_buffer_bytes {
        set_socket_recv_buffer_size(&socket, bytes)?;
    }
    if let Some(local) = options.local {
        if local.is_ipv6() {
            set_ipv6_v6only(&socket, true)?;
        }
        if local.port() == 0 {
            set_bind_address_no_port(&socket)?;
        }
        bind(&socket, &local)?;
    }
    match connect(&socket, &addr) {
        Ok(()) => Ok(Connecting::Done(socket)),
        Err(Errno::INPROGRESS | Errno::INTR) => Ok(Connecting::UnderWay(socket)),
        Err(error) => Err(error.into()),
    }
}

/// Connects to the UNIX socket at `path`, immediately or not at all.
///
/// # Errors
/// `WouldBlock` if the listener's queue is full; try again later, because the kernel does not
/// signal free space. `NotFound` or `ConnectionRefused` if there is no listener, `InvalidInput` for
/// paths over 107 bytes.
pub fn connect_unix(path: &Path) -> io::Result<OwnedFd> {
    let addr = SocketAddrUnix::new(path).map_err(|error| match error {
        Errno::NAMETOOLONG => {
            io::Error::new(io::ErrorKind::InvalidInput, "the path of a UNIX socket has at most 107 bytes")
        }
        error => error.into(),
    })?;
    let socket = stream_socket(AddressFamily::UNIX, None)?;
    connect(&socket, &addr)?;
    Ok(socket)
}

/// The result of a connection attempt, once the socket is writable.
pub(crate) fn connect_result(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(socket_error(socket)??)
}

/// Leaves the choice of the local port to connect(2), also for IPv6; neither rustix nor socket2 has
/// this option.
#[allow(unsafe_code)]
fn set_bind_address_no_port(socket: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the kernel reads an integer of the given size, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn stream_socket(
    family: AddressFamily,
    protocol: Option<rustix::net::Protocol>,
) -> rustix::io::Result<OwnedFd> {
    socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, protocol)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_unix_listener_is_found_refused_missed_or_full() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("listener");
        assert_eq!(connect_unix(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let _first = connect_unix(&path).unwrap();
        assert_eq!(connect_unix(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(listener);
        assert_eq!(connect_unix(&path).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let long = dir.path().join("x".repeat(120));
        assert_eq!(connect_unix(&long).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_connection_comes_from_where_it_was_told() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let options =
            ConnectOptions { local: Some("127.0.0.2:0".parse().unwrap()), recv_buffer_bytes: Some(8192) };
        let connecting = connect_tcp(listener.local_addr().unwrap(), &options).unwrap();
        let (_, peer) = listener.accept().unwrap();
        assert_eq!(peer.ip().to_string(), "127.0.0.2");
        let (Connecting::Done(socket) | Connecting::UnderWay(socket)) = connecting;
        assert_eq!(rustix::net::sockopt::socket_recv_buffer_size(&socket).unwrap(), 2 * 8192);
    }
}
