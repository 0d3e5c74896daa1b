//! Makes listening sockets, and queries sockets.
//!
//! Contains the socket options that the server needs. Leaves out steering programs and
//! per-connection tuning. Descriptors are non-blocking and closed on exec. Tested here.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use socket2::{Domain, Protocol, SockFilter, SockRef, Socket, Type};

/// Options of a listener.
#[derive(Debug, Clone)]
pub struct ListenOptions {
    /// Connections that the kernel queues before they are accepted. Default 4096, the default of
    /// `net.core.somaxconn` since Linux 5.4; the kernel silently lowers the number to that setting.
    /// Beyond it, new connections are dropped and the clients try again.
    pub backlog: u32,
    /// Prefer connections whose packets this cpu handles (`SO_INCOMING_CPU`). Default: no
    /// preference.
    pub incoming_cpu: Option<usize>,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self { backlog: 4096, incoming_cpu: None }
    }
}

/// A non-blocking TCP socket listening at `addr`, which other sockets of the same user may share
/// (`SO_REUSEPORT`): one per core. IPv6 addresses accept IPv6 only. `TCP_NODELAY` is set here once,
/// and accepted sockets inherit it.
///
/// # Errors
/// `AddrInUse` if another user's process listens there, `AddrNotAvailable` if the machine has no
/// such address, `PermissionDenied` for ports below 1024 without the necessary right.
pub fn listen(addr: SocketAddr, options: &ListenOptions) -> io::Result<OwnedFd> {
    let socket = bind(addr, options.incoming_cpu)?;
    limit_queue(socket.as_fd(), options.backlog)?;
    Ok(socket)
}

/// A socket as of [`listen`] that does not listen yet: no connection arrives until a call of
/// [`limit_queue`].
///
/// # Errors
/// As [`listen`].
pub fn bind(addr: SocketAddr, incoming_cpu: Option<usize>) -> io::Result<OwnedFd> {
    let socket = unbound(addr)?;
    socket.set_reuse_port(true)?;
    socket.set_tcp_nodelay(true)?;
    if let Some(cpu) = incoming_cpu {
        socket.set_cpu_affinity(cpu)?;
    }
    socket.bind(&addr.into())?;
    Ok(socket.into())
}

/// Makes a listener prefer connections whose packets this cpu handles from now on, or have no
/// preference.
///
/// # Errors
/// The descriptor is not a socket.
pub fn prefer_cpu(listener: BorrowedFd<'_>, cpu: Option<usize>) -> io::Result<()> {
    // The kernel's number is signed, -1 for none.
    SockRef::from(&listener).set_cpu_affinity(cpu.unwrap_or(usize::MAX))
}

/// Interval and number of `probe_free`'s attempts. The kernel destroys the io_uring of an ended
/// process in the background, together with the sockets that it was accepting from: 5 to 8 ms later
/// on Linux 6.18.
const AFTERLIFE: (Duration, u32) = (Duration::from_millis(5), 20);

/// Whether `listen` would be alone at `addr`. With `SO_REUSEPORT` a second server of the same user
/// would go unnoticed and share the connections of the first, so call this before the first
/// `listen`. Waits up to 100 ms for a server that has just ended to release the address.
///
/// # Errors
/// `AddrInUse` if another process listens there, and other errors of binding.
pub fn probe_free(addr: SocketAddr) -> io::Result<()> {
    let (pause, attempts) = AFTERLIFE;
    for _ in 0..attempts {
        match probe_once(addr) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => std::thread::sleep(pause),
            result => return result,
        }
    }
    probe_once(addr)
}

/// As [`probe_free`], without waiting: binds a socket at `addr` and closes it.
///
/// # Errors
/// As there.
pub fn probe_once(addr: SocketAddr) -> io::Result<()> {
    unbound(addr)?.bind(&addr.into())
}

fn unbound(addr: SocketAddr) -> io::Result<Socket> {
    let socket =
        Socket::new(Domain::for_address(addr), Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if addr.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

/// Whether reads and writes of a descriptor may block.
///
/// # Errors
/// The kernel's error.
pub fn blocks(fd: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(!rustix::fs::fcntl_getfl(fd)?.contains(rustix::fs::OFlags::NONBLOCK))
}

/// The peer's address. `None` for sockets outside of the Internet families.
///
/// # Errors
/// `NotConnected` once the peer is gone.
pub fn peer_addr(fd: BorrowedFd<'_>) -> io::Result<Option<SocketAddr>> {
    let addr = rustix::net::getpeername(fd)?;
    match addr {
        Some(addr) => Ok(SocketAddr::try_from(addr).ok()),
        None if is_unix(fd) => Ok(None),
        None => Err(io::ErrorKind::NotConnected.into()),
    }
}

fn is_unix(fd: BorrowedFd<'_>) -> bool {
    rustix::net::sockopt::socket_domain(fd).is_ok_and(|family| family == rustix::net::AddressFamily::UNIX)
}

/// Bytes of memory in which a socket holds what was sent and its peer has not read yet
/// (`SO_MEMINFO`). For a unix socket these are the bytes in the queue of the peer.
///
/// # Errors
/// The descriptor is not a socket.
pub fn held_bytes(fd: BorrowedFd<'_>) -> io::Result<u64> {
    /// `SK_MEMINFO_WMEM_ALLOC` (`linux/sock_diag.h`).
    const AT: usize = 2;
    Ok(mem_info::<{ AT + 1 }>(fd)?[AT].into())
}

/// Memory of the queues of a TCP connection: content, and the kernel's records of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketQueues {
    /// Bytes that hold received content that was not read. A close with such content resets the
    /// connection.
    pub unread: u64,
    /// Bytes that hold sent content that the peer has not acknowledged. A reset discards them.
    pub unacknowledged: u64,
}

/// The queues of a TCP connection (`SO_MEMINFO`). The call takes no lock, so asking is cheap.
///
/// # Errors
/// The descriptor is not a socket.
pub fn socket_queues(fd: BorrowedFd<'_>) -> io::Result<SocketQueues> {
    /// `SK_MEMINFO_RMEM_ALLOC` and `SK_MEMINFO_WMEM_QUEUED` (`linux/sock_diag.h`).
    const UNREAD: usize = 0;
    const UNACKNOWLEDGED: usize = 5;
    let info = mem_info::<{ UNACKNOWLEDGED + 1 }>(fd)?;
    Ok(SocketQueues { unread: info[UNREAD].into(), unacknowledged: info[UNACKNOWLEDGED].into() })
}

/// The first words of the kernel's account of a socket's memory (`SO_MEMINFO`).
#[allow(unsafe_code)]
fn mem_info<const WORDS: usize>(fd: BorrowedFd<'_>) -> io::Result<[u32; WORDS]> {
    let mut info = [0u32; WORDS];
    let mut bytes = size_of_val(&info) as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_MEMINFO);
    let to = info.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `bytes` bytes, the size of `info`, and both outlive the
    // call.
    match unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, to, &raw mut bytes) } {
        0 => Ok(info),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Changes the number of connections that the kernel queues on a listener before they are accepted.
/// Queued connections stay. A bound socket that does not listen starts to listen.
///
/// # Errors
/// The descriptor cannot listen.
pub fn limit_queue(listener: BorrowedFd<'_>, backlog: u32) -> io::Result<()> {
    Ok(rustix::net::listen(listener, i32::try_from(backlog).unwrap_or(i32::MAX))?)
}

/// The number of connections in the kernel's accept queue of a TCP listener (`TCP_INFO`).
///
/// # Errors
/// The descriptor is not a TCP socket.
pub fn queued_count(listener: BorrowedFd<'_>) -> io::Result<u32> {
    /// `tcpi_unacked` in `struct tcp_info` (`linux/tcp.h`): after 8 bytes and 4 words.
    const AT: usize = 8 + 4 * 4;
    let info = tcp_info::<{ AT + 4 }>(listener)?;
    Ok(u32::from_ne_bytes(info[AT..].try_into().expect("four bytes are left")))
}

/// The kernel's data on a connection that was just accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newcomer {
    /// Time since the last bytes, or since the connection if no bytes have come: how long the
    /// connection has waited.
    pub waited: Duration,
    /// Whether the client has closed the connection, or at least one direction.
    pub has_left: bool,
}

/// Reads the data of a TCP connection that was just accepted (`TCP_INFO`).
///
/// # Errors
/// The descriptor is not a TCP socket.
pub fn newcomer(fd: BorrowedFd<'_>) -> io::Result<Newcomer> {
    /// `tcpi_last_data_recv` in `struct tcp_info` (`linux/tcp.h`), in milliseconds: after 8 bytes
    /// and 11 words.
    const AT: usize = 8 + 11 * 4;
    /// `tcpi_state`, the first byte, of a connection whose client may still want an answer
    /// (`net/tcp_states.h`).
    const ESTABLISHED: u8 = 1;
    let info = tcp_info::<{ AT + 4 }>(fd)?;
    let ms = u32::from_ne_bytes(info[AT..].try_into().expect("four bytes are left"));
    Ok(Newcomer { waited: Duration::from_millis(ms.into()), has_left: info[0] != ESTABLISHED })
}

/// Sent bytes of a TCP connection that the peer has acknowledged since the beginning (`TCP_INFO`,
/// Linux 4.1), which grows while a client takes any bytes, however slowly.
///
/// # Errors
/// The descriptor is not a TCP socket.
pub fn acknowledged_bytes(fd: BorrowedFd<'_>) -> io::Result<u64> {
    /// `tcpi_bytes_acked` in `struct tcp_info` (`linux/tcp.h`): after 8 bytes, 24 words and 2
    /// rates.
    const AT: usize = 8 + 24 * 4 + 2 * 8;
    let info = tcp_info::<{ AT + 8 }>(fd)?;
    Ok(u64::from_ne_bytes(info[AT..].try_into().expect("eight bytes are left")))
}

/// The state of the peer of a TCP connection that has closed its sending side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// The peer has acknowledged all bytes, so the peer still receives.
    Receives,
    /// The peer has not acknowledged all bytes yet.
    Unknown,
    /// The peer has gone: it answered sent bytes with a reset.
    Gone,
}

/// Asks for the peer of a TCP connection that has closed its sending side (`TCP_INFO`). A peer
/// that has closed the whole connection looks the same until something is sent, which it resets.
/// The peer of a unix socket is known at once.
///
/// # Errors
/// The descriptor is neither a TCP socket nor a unix socket.
pub fn peer_after_end(fd: BorrowedFd<'_>) -> io::Result<PeerState> {
    /// `tcpi_unacked` in `struct tcp_info` (`linux/tcp.h`), in segments: after 8 bytes and 4 words.
    const AT: usize = 8 + 4 * 4;
    /// `tcpi_state`, the first byte, of a connection that was reset (`net/tcp_states.h`).
    const CLOSE: u8 = 7;
    if is_unix(fd) {
        let mut peer = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
        poll(&mut peer, Some(&Timespec::default()))?;
        let has_gone = peer[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
        return Ok(if has_gone { PeerState::Gone } else { PeerState::Receives });
    }
    let info = tcp_info::<{ AT + 4 }>(fd)?;
    Ok(match info[AT..] {
        _ if info[0] == CLOSE => PeerState::Gone,
        [0, 0, 0, 0] => PeerState::Receives,
        _ => PeerState::Unknown,
    })
}

/// The first bytes of the kernel's `struct tcp_info`; zero beyond the end of an older kernel's
/// structure.
#[allow(unsafe_code)]
fn tcp_info<const BYTES: usize>(fd: BorrowedFd<'_>) -> io::Result<[u8; BYTES]> {
    let mut info = [0u8; BYTES];
    let mut bytes = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes, the size of `info`, and both outlive the
    // call.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(info)
}

/// Sends small segments at once (`TCP_NODELAY`). Sockets accepted from [`listen`] have this option
/// already.
///
/// # Errors
/// The descriptor is not a TCP socket.
pub fn set_nodelay(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_tcp_nodelay(fd, true)?)
}

/// Lets a TCP listener report a connection only when its first bytes are there, or after about a
/// second (`TCP_DEFER_ACCEPT`, tcp(7)). Then the server wakes once for a new connection, and not
/// once for the connection and again for its bytes. For protocols whose client speaks first.
///
/// # Errors
/// The descriptor is not a TCP socket.
#[allow(unsafe_code)]
pub fn defer_accept(listener: BorrowedFd<'_>) -> io::Result<()> {
    let seconds: libc::c_int = 1;
    // SAFETY: the kernel reads an integer of the given size, which lives until the call returns.
    let result = unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of_val(&seconds) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The cpu that handled the last packet of a connection, or the preferred cpu of a listener
/// (`SO_INCOMING_CPU`).
///
/// # Errors
/// `None` is not an error: the kernel does not know, for example before the first packet.
pub fn incoming_cpu(fd: BorrowedFd<'_>) -> io::Result<Option<usize>> {
    let cpu = SockRef::from(&fd).cpu_affinity()?;
    // The kernel's number is signed, -1 for none.
    Ok((cpu <= i32::MAX as usize).then_some(cpu))
}

/// The network card's queue of the last packet of a connection (`SO_INCOMING_NAPI_ID`), by the
/// kernel's number of pollable queues; `None` for a device without such queues, for example the
/// loopback.
///
/// # Errors
/// The descriptor is not a socket, or the kernel cannot poll cards.
#[allow(unsafe_code)]
pub fn incoming_queue(fd: BorrowedFd<'_>) -> io::Result<Option<u32>> {
    let mut id: libc::c_uint = 0;
    let mut bytes = size_of_val(&id) as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_INCOMING_NAPI_ID);
    // SAFETY: the kernel writes at most `bytes` bytes, the size of `id`, and both outlive the call.
    match unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, (&raw mut id).cast(), &raw mut bytes) } {
        0 => Ok((id != 0).then_some(id)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether a connection is queued on a listener, without taking it.
///
/// # Errors
/// The descriptor cannot be polled.
pub fn has_queued(listener: BorrowedFd<'_>) -> io::Result<bool> {
    let mut listeners = [PollFd::from_borrowed_fd(listener, PollFlags::IN)];
    Ok(poll(&mut listeners, Some(&Timespec::default()))? > 0)
}

/// Accepts a connection from a listener that other threads may accept from too; `None` if none is
/// queued.
///
/// # Errors
/// As accept(2); connections that died in the queue are skipped.
pub fn accept_queued(listener: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    accept_now(listener)
}

/// Makes a listener, also in other processes, start no more connections. First packets are dropped,
/// and when the client repeats them, a second later, they find another listener of the address or
/// none. Closing a listener resets connections that arrived after the last look at the queue. After
/// this call none arrive, so look once more and close the listener. The call cannot be undone.
///
/// # Errors
/// The descriptor is not a socket, or there is no memory for a filter.
pub fn begin_no_more(listener: BorrowedFd<'_>) -> io::Result<()> {
    /// Offset of the flags in a TCP header (RFC 9293, section 3.1), which the filter of a TCP
    /// socket sees, and the flag of the first packet.
    const FLAGS_AT: u32 = 13;
    const SYN: u32 = 0x02;
    const fn instruction(code: u32, otherwise: u8, operand: u32) -> SockFilter {
        SockFilter::new(code as u16, 0, otherwise, operand)
    }
    let filter = [
        instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, FLAGS_AT),
        instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 1, SYN),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0),
        instruction(libc::BPF_RET | libc::BPF_K, 0, u32::MAX),
    ];
    SockRef::from(&listener).attach_filter(&filter)
}

/// Accepts a connection if one is queued. Connections that died in the queue are skipped, and so
/// are errors that Linux passes on from the network of the new socket (see accept(2), "Error
/// handling").
pub(crate) fn accept_now(listener: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    loop {
        match rustix::net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(fd) => return Ok(Some(fd)),
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) if concerns_one_connection(error) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether an error of accept concerns only one connection.
pub(crate) fn concerns_one_connection(error: Errno) -> bool {
    matches!(
        error,
        Errno::INTR
            | Errno::CONNABORTED
            | Errno::NETDOWN
            | Errno::PROTO
            | Errno::NOPROTOOPT
            | Errno::HOSTDOWN
            | Errno::NONET
            | Errno::HOSTUNREACH
            | Errno::NETUNREACH
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    fn local(port: u16) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    }

    #[test]
    fn a_port_is_shared_by_our_own_sockets_and_found_taken() {
        let first = TcpListener::from(listen(local(0), &ListenOptions::default()).unwrap());
        let addr = first.local_addr().unwrap();
        let _second = listen(addr, &ListenOptions { incoming_cpu: Some(0), ..Default::default() }).unwrap();
        assert_eq!(probe_free(addr).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert!(probe_free(local(0)).is_ok());
    }

    #[test]
    fn accepted_sockets_inherit_nodelay_and_know_their_peer() {
        let listener = TcpListener::from(listen(local(0), &ListenOptions::default()).unwrap());
        assert!(accept_now(listener.as_fd()).unwrap().is_none());
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = accept_now(listener.as_fd()).unwrap().expect("connect has returned");
        assert_eq!(peer_addr(accepted.as_fd()).unwrap(), Some(client.local_addr().unwrap()));
        let accepted = TcpStream::from(accepted);
        assert!(accepted.nodelay().unwrap(), "TCP_NODELAY was not inherited");
        assert!(set_nodelay(client.as_fd()).is_ok());
        assert!(newcomer(std::fs::File::open("/dev/null").unwrap().as_fd()).is_err());
    }

    #[test]
    fn a_newcomer_has_waited_and_may_have_left() {
        let listener = TcpListener::from(listen(local(0), &ListenOptions::default()).unwrap());
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = accept_now(listener.as_fd()).unwrap().expect("connect has returned");
        let look = || newcomer(accepted.as_fd()).unwrap();
        let before = look();
        assert!(!before.has_left && before.waited < Duration::from_secs(3600));
        drop(client);
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while !look().has_left {
            assert!(std::time::Instant::now() < deadline, "a client that has left is not seen to have");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_bound_socket_has_no_connections_until_it_listens_and_may_change_its_cpu() {
        let listener = TcpListener::from(listen(local(0), &ListenOptions::default()).unwrap());
        let addr = listener.local_addr().unwrap();
        let bound = bind(addr, Some(0)).unwrap();
        let clients: Vec<_> = (0..16).map(|_| TcpStream::connect(addr).unwrap()).collect();
        assert_eq!(queued_count(listener.as_fd()).unwrap(), 16);
        limit_queue(bound.as_fd(), 64).unwrap();
        drop(listener);
        drop(clients);
        let _client = TcpStream::connect(addr).unwrap();
        assert_eq!(queued_count(bound.as_fd()).unwrap(), 1);
        for cpu in [Some(1), None] {
            prefer_cpu(bound.as_fd(), cpu).unwrap();
            assert_eq!(incoming_cpu(bound.as_fd()).unwrap(), cpu);
        }
    }

    #[test]
    fn a_full_queue_takes_more_once_it_may_be_longer() {
        let listener =
            TcpListener::from(listen(local(0), &ListenOptions { backlog: 1, ..Default::default() }).unwrap());
        limit_queue(listener.as_fd(), 64).unwrap();
        // The kernel's bound is one more than the given number.
        let addr = listener.local_addr().unwrap();
        let clients: Vec<_> = (0..8).map(|_| TcpStream::connect(addr).unwrap()).collect();
        assert_eq!(queued_count(listener.as_fd()).unwrap(), 8);
        for _ in &clients {
            accept_now(listener.as_fd()).unwrap().expect("all are queued");
        }
        assert!(limit_queue(clients[0].as_fd(), 1).is_err());
    }

    #[test]
    fn closing_listener_still_returns_queued_connections() {
        let listener = TcpListener::from(listen(local(0), &ListenOptions::default()).unwrap());
        let addr = listener.local_addr().unwrap();
        let mut queued = TcpStream::connect(addr).unwrap();
        begin_no_more(listener.as_fd()).unwrap();
        let late = TcpStream::connect_timeout(&addr, Duration::from_millis(50));
        assert_eq!(late.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let mut taken = TcpStream::from(accept_now(listener.as_fd()).unwrap().expect("it was there before"));
        assert!(accept_now(listener.as_fd()).unwrap().is_none());
        taken.set_nonblocking(false).unwrap();
        queued.write_all(b"whole").unwrap();
        let mut received = [0; 5];
        taken.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"whole");
        // Another listener there takes later connections.
        let next = TcpListener::from(listen(addr, &ListenOptions::default()).unwrap());
        drop(listener);
        let _client = TcpStream::connect(addr).unwrap();
        assert!(accept_now(next.as_fd()).unwrap().is_some());
    }

    #[test]
    fn a_queued_connection_is_seen_and_can_be_taken_once() {
        let listener =
            listen(local(0), &ListenOptions { incoming_cpu: Some(0), ..Default::default() }).unwrap();
        assert_eq!(incoming_cpu(listener.as_fd()).unwrap(), Some(0));
        assert!(!has_queued(listener.as_fd()).unwrap());
        let addr = TcpListener::from(listener.try_clone().unwrap()).local_addr().unwrap();
        let _client = TcpStream::connect(addr).unwrap();
        assert!(has_queued(listener.as_fd()).unwrap());
        let taken = accept_queued(listener.as_fd()).unwrap().expect("it is queued");
        assert!(incoming_cpu(taken.as_fd()).unwrap().is_some());
        // A kernel that cannot poll gives an error.
        assert_eq!(incoming_queue(taken.as_fd()).unwrap_or(None), None, "the loopback device has no queues");
        assert!(accept_queued(listener.as_fd()).unwrap().is_none());
    }

    #[test]
    fn queues_tell_of_unread_and_unacknowledged_content() {
        let listener = listen((Ipv4Addr::LOCALHOST, 0).into(), &ListenOptions::default()).unwrap();
        let addr = TcpListener::from(listener.try_clone().unwrap()).local_addr().unwrap();
        let mut client = TcpStream::connect(addr).unwrap();
        let ours = accept_queued(listener.as_fd()).unwrap().expect("it is queued");
        let mut stream = TcpStream::from(ours.try_clone().unwrap());
        let queues = || socket_queues(ours.as_fd()).unwrap();
        assert_eq!(queues(), SocketQueues { unread: 0, unacknowledged: 0 });
        client.write_all(b"late").unwrap();
        stream.set_nonblocking(false).unwrap();
        stream.peek(&mut [0]).unwrap();
        assert!(queues().unread > 0);
        stream.read_exact(&mut [0; 4]).unwrap();
        assert_eq!(queues().unread, 0);
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[0; 1 << 16]).is_ok() {}
        assert!(queues().unacknowledged > 1 << 16, "the client reads nothing");
    }

    #[test]
    fn unix_socket_tells_of_its_peer() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        assert_eq!(peer_addr(ours.as_fd()).unwrap(), None);
        assert_eq!(held_bytes(ours.as_fd()).unwrap(), 0);
        ours.write_all(&[0; 5000]).unwrap();
        assert!(held_bytes(ours.as_fd()).unwrap() >= 5000);
        theirs.read_exact(&mut [0; 5000]).unwrap();
        assert_eq!(held_bytes(ours.as_fd()).unwrap(), 0);
        theirs.shutdown(Shutdown::Write).unwrap();
        assert_eq!(peer_after_end(ours.as_fd()).unwrap(), PeerState::Receives);
        drop(theirs);
        assert_eq!(peer_after_end(ours.as_fd()).unwrap(), PeerState::Gone);
    }
}
