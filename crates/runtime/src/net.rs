//! TCP for tasks: listeners and streams on the core's driver.
//!
//! A socket works on the driver of the core that uses the socket. A task that has moved, and
//! another task on another core, use the socket as before: the first use there brings the socket
//! along, with everything that has arrived and with the rest of a send (`anchor.rs`). Dropping a
//! socket closes it, on any thread. Tested in `tests/net.rs`, `tests/moves.rs` and
//! `tests/socket_drop.rs`.

use crate::{
    anchor::Anchor,
    core::{Core, current},
    error::OffCore,
    home_core::{CoreRequest, OneWaiter, QueuedSend},
    time::sleep,
};
use bytes::Bytes;
use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    os::fd::{BorrowedFd, OwnedFd},
    path::Path,
    task::{Context, Poll},
    time::Duration,
};
use vermeil_io::{
    ConnectOptions, Connecting, Driver, ListenerKey, More, StreamKey, connect_tcp, connect_unix,
};
use vermeil_queue::Direction;
use vermeil_sched::{BackOff, BackOffBounds};

/// Lets this core's waits poll the network card for packets, for at most `up_to`, before the core
/// sleeps until an interrupt; zero ends the polling. Affects all waits on this core; see
/// [`Driver::busy_poll`](vermeil_io::Driver::busy_poll).
///
/// # Errors
/// Off a core, or if the kernel is older than Linux 6.9.
pub fn busy_poll(up_to: Duration) -> io::Result<()> {
    current(|core| core.io.driver.borrow_mut().busy_poll(up_to)).ok_or(OffCore)?
}

/// Resources that two tasks cannot wait for at once.
const CONNECTIONS: &str = "connections of this listener";
const BYTES: &str = "bytes of this stream";
const THE_SEND: &str = "the end of a send of this stream";

/// A listening socket. The driver of the core that uses the listener accepts the connections; the
/// first use on another core brings the listener along. Dropping the listener, on any thread,
/// closes the socket and resets connections that were not accepted.
#[derive(Debug)]
pub struct TcpListener {
    anchor: Anchor<ListenerKey>,
    accepts: OneWaiter,
}

impl TcpListener {
    /// Takes over a bound, listening socket, of TCP or a UNIX socket, and makes the socket
    /// non-blocking.
    ///
    /// # Errors
    /// Off a core, or if the driver refuses the descriptor.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        let anchor = Anchor::new(|driver| driver.add_listener(socket))?;
        Ok(Self { anchor, accepts: OneWaiter::default() })
    }

    /// Listens on the UNIX socket `path`, which must not exist.
    ///
    /// # Errors
    /// Off a core, or the error of bind(2) or listen(2): `AddrInUse` if the path exists.
    pub fn bind_unix(path: &Path) -> io::Result<Self> {
        on_core()?;
        let socket = std::os::unix::net::UnixListener::bind(path)?;
        socket.set_nonblocking(true)?;
        Self::new(socket.into())
    }

    /// The next connection. A single task at a time.
    ///
    /// # Errors
    /// The error of accept(2), once per failure: for example, no descriptors are left. Wait before
    /// the next call then. `ResourceBusy` while another task waits here.
    pub async fn accept(&self) -> io::Result<OwnedFd> {
        let _waits = self.accepts.take(CONNECTIONS)?;
        poll_fn(|context| {
            self.anchor
                .poll(Direction::Read, context, |driver, key, context| driver.poll_accept(context, key))
        })
        .await
    }

    /// Brings the listener to this core, so that calls that do not wait succeed.
    ///
    /// # Errors
    /// Off a core; `NotConnected` after a close; `ResourceBusy` while another task waits here.
    pub async fn move_here(&self) -> io::Result<()> {
        let _waits = self.accepts.take(CONNECTIONS)?;
        self.anchor.move_here().await
    }

    /// Lends the descriptor to `f`, for options.
    ///
    /// # Errors
    /// `NotConnected` after a close; `WouldBlock` while another core has the listener, which then
    /// begins to move: await [`move_here`](Self::move_here) first.
    ///
    /// # Panics
    /// If `f` uses another object of this core's driver, because the driver is in use while `f`
    /// runs.
    pub fn with_fd<R>(&self, f: impl FnOnce(BorrowedFd<'_>) -> R) -> io::Result<R> {
        let looked = self.anchor.on_driver_or_ask(|driver, key| driver.listener_fd(key).map(f))?;
        looked.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Number of connections that wait to be accepted; 0 if unknown, for example because another
    /// core has the listener.
    pub fn waiting_count(&self) -> usize {
        self.anchor.on_driver(|driver, key| driver.waiting_count(key)).unwrap_or(0)
    }

    /// Stops listening. [`accept`](Self::accept) still returns connections that the kernel has
    /// completed, and then fails.
    pub fn close(&self) {
        // For the next driver, because the listener may leave its driver before the request comes.
        // Another core may begin the first move at any moment.
        self.anchor.moves().queue_stop_listening();
        match self.anchor.core_and_key() {
            Some((core, key)) => core.request(CoreRequest::StopListening(key)),
            // No driver has the listener: this core attaches the listener, or another core does so.
            // Off a core, the next use attaches the listener.
            None => drop(self.anchor.begin_move()),
        }
    }
}

/// The first and the longest pause between attempts to enter the full queue of a UNIX listener or
/// datagram socket, because the kernel does not report room in the queue. The limits of the wait:
/// an attempt enters at most 32 ms after there is room, and a long wait makes at most 32 attempts a
/// second.
pub(crate) const FULL_QUEUE_PAUSES: BackOffBounds =
    BackOffBounds::doubling(Duration::from_millis(1), Duration::from_millis(32));

/// A connected socket. The driver of the core that uses the stream receives and sends; the first
/// use on another core brings the stream along. A move costs some microseconds and one wake-up of
/// the core that had the stream. A stream that is used on one core only pays nothing.
///
/// One task may read while another task writes. If they run on different cores, the stream moves
/// with each use.
///
/// Dropping the stream, on any thread, closes the socket. If the kernel has not taken every byte of
/// a [`send`](Self::send) by then, also because a send has failed, the connection is reset, so that
/// the peer does not mistake the partial data for all data. Await [`sent`](Self::sent) before the
/// drop to deliver all bytes.
#[derive(Debug)]
pub struct TcpStream {
    anchor: Anchor<StreamKey>,
    reads: OneWaiter,
    writes: OneWaiter,
}

impl TcpStream {
    /// Takes over a connected, non-blocking socket.
    ///
    /// # Errors
    /// Off a core, or if the driver refuses the descriptor.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        Self::on(|driver| driver.add_stream(socket))
    }

    /// As [`new`](Self::new), for a socket that has probably received bytes already: the first
    /// [`poll_recv`](Self::poll_recv) receives those bytes.
    ///
    /// # Errors
    /// As `new`.
    pub fn resume(socket: OwnedFd) -> io::Result<Self> {
        Self::on(|driver| driver.resume_stream(socket))
    }

    /// Connects to `addr`. Dropping the future cancels the attempt.
    ///
    /// # Errors
    /// Off a core; if no descriptors or local ports are left; or the reason why the peer cannot be
    /// reached: `ConnectionRefused`, or `TimedOut` after the kernel's two minutes. Use
    /// [`Sleep::limit`](crate::Sleep::limit) for a shorter limit.
    pub async fn connect(addr: SocketAddr) -> io::Result<Self> {
        Self::connect_with(addr, &ConnectOptions::default()).await
    }

    /// As [`connect`](Self::connect), with a local address or a receive buffer size.
    ///
    /// # Errors
    /// As `connect`; `AddrNotAvailable` for a local address that this machine does not have.
    pub async fn connect_with(addr: SocketAddr, options: &ConnectOptions) -> io::Result<Self> {
        on_core()?;
        let socket = match connect_tcp(addr, options)? {
            Connecting::Done(socket) => return Self::connected(socket),
            Connecting::UnderWay(socket) => socket,
        };
        let stream = Self::on(|driver| driver.add_connecting(socket))?;
        let anchor = &stream.anchor;
        poll_fn(|context| {
            anchor.poll(Direction::Write, context, |driver, key, context| driver.poll_connected(context, key))
        })
        .await?;
        Ok(stream)
    }

    /// For a connection that was made at once.
    fn connected(socket: OwnedFd) -> io::Result<Self> {
        Self::on(|driver| driver.add_connected(socket))
    }

    fn on(add: impl FnOnce(&mut Driver) -> io::Result<StreamKey>) -> io::Result<Self> {
        let anchor = Anchor::new(add)?;
        Ok(Self { anchor, reads: OneWaiter::default(), writes: OneWaiter::default() })
    }

    /// Connects to the UNIX socket at `path`. While the queue of the listener is full, retries
    /// every few milliseconds until the future is dropped.
    ///
    /// # Errors
    /// Off a core, or the error of connect(2): `NotFound` or `ConnectionRefused` if there is no
    /// listener.
    pub async fn connect_unix(path: &Path) -> io::Result<Self> {
        on_core()?;
        let mut pauses = BackOff::new(&FULL_QUEUE_PAUSES);
        loop {
            match connect_unix(path) {
                Ok(socket) => return Self::connected(socket),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            sleep(pauses.advance()).await;
        }
    }

    /// Appends received bytes to `buffer`; waits until bytes arrive. `Ok(0)` is the end of the
    /// stream. A single task at a time.
    ///
    /// # Errors
    /// The error of recv(2); `ResourceBusy` while another task waits here.
    pub async fn recv(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let _waits = self.reads.take(BYTES)?;
        poll_fn(|context| self.receive(context, buffer)).await
    }

    /// As [`recv`](Self::recv), for a poll function: the driver wakes the task that polled last.
    ///
    /// # Errors
    /// As `recv`.
    pub fn poll_recv(&self, context: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        self.reads.check(BYTES)?;
        self.receive(context, buffer)
    }

    #[inline]
    fn receive(&self, context: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        self.anchor
            .poll(Direction::Read, context, |driver, key, context| driver.poll_recv(context, key, buffer))
    }

    /// Appends received bytes to `buffer`, without a wait and beside the budget of the task.
    /// `Some(0)` is the end of the stream. `None` means that nothing had arrived when this core
    /// last looked at its sockets; [`yield_turn`](crate::yield_turn) lets the core look. In
    /// contrast, a pending [`poll_recv`](Self::poll_recv) tells nothing about the socket. A task
    /// that waits in `poll_recv` keeps waiting.
    ///
    /// # Errors
    /// The error of recv(2); off a core; `ResourceBusy` while a task waits in [`recv`](Self::recv);
    /// `WouldBlock` while another core has the stream, which then begins to move: await
    /// [`move_here`](Self::move_here) first.
    pub fn try_recv(&self, buffer: &mut Vec<u8>) -> io::Result<Option<usize>> {
        self.reads.check(BYTES)?;
        let received = self.anchor.on_driver_or_ask(|driver, key| driver.try_recv(key, buffer))?;
        // The driver may have executed a turn.
        current(Core::attend_detaches);
        received
    }

    /// Hands `head` and `body` to the driver, which sends them in this order. A single send at a
    /// time: first await [`sent`](Self::sent) for the previous send. A drop before that may reset
    /// the connection.
    ///
    /// # Errors
    /// Off a core; `ResourceBusy` if the previous send was not awaited. `sent` reports errors of
    /// the send, and of a send that had to wait for the stream to come to this core.
    pub fn send(&self, head: Vec<u8>, body: Bytes, more: More) -> io::Result<()> {
        let mut send = Some(QueuedSend { head, body, more });
        let started = self.anchor.on_driver(|driver, key| {
            let QueuedSend { head, body, more } = send.take().expect("sent once");
            driver.start_send(key, head, body, more)
        });
        match (started, send) {
            (Some(started), _) => started,
            (None, Some(send)) => self.send_after_move(send),
            (None, None) => unreachable!("a send that was not started is still here"),
        }
    }

    /// The stream is on another core: it comes to this core with the send.
    #[cold]
    fn send_after_move(&self, send: QueuedSend) -> io::Result<()> {
        on_core()?;
        self.anchor.moves().queue_send(send).map_err(|_| is_sending())?;
        self.anchor.begin_move()
    }

    /// Waits until the kernel has taken every byte of the last [`send`](Self::send); returns its
    /// `head`, empty. A single task at a time.
    ///
    /// # Errors
    /// The error of send(2); `ResourceBusy` while another task waits here or for
    /// [`sendfile`](Self::sendfile).
    pub async fn sent(&self) -> io::Result<Vec<u8>> {
        let _waits = self.writes.take(THE_SEND)?;
        poll_fn(|context| self.poll_end_of_send(context)).await
    }

    /// As [`sent`](Self::sent), for a poll function: the driver wakes the task that polled last.
    ///
    /// # Errors
    /// As `sent`.
    pub fn poll_sent(&self, context: &mut Context<'_>) -> Poll<io::Result<Vec<u8>>> {
        self.writes.check(THE_SEND)?;
        self.poll_end_of_send(context)
    }

    #[inline]
    fn poll_end_of_send(&self, context: &mut Context<'_>) -> Poll<io::Result<Vec<u8>>> {
        let sent = self
            .anchor
            .poll(Direction::Write, context, |driver, key, context| driver.poll_sent(context, key));
        if let (Poll::Ready(_), Some(moves)) = (&sent, self.anchor.moves_if_any())
            && let Some(error) = moves.take_failure()
        {
            return Poll::Ready(Err(error));
        }
        sent
    }

    /// Sends up to `count` bytes of `file` from `offset`, without a copy through this process, and
    /// advances `offset`. `Ok(0)`: the file has no byte there. A single task at a time.
    ///
    /// # Errors
    /// The error of sendfile(2); `ResourceBusy` if a [`send`](Self::send) was not awaited, or while
    /// another task waits.
    pub async fn sendfile(&self, file: BorrowedFd<'_>, offset: &mut u64, count: usize) -> io::Result<usize> {
        let _waits = self.writes.take(THE_SEND)?;
        poll_fn(|context| {
            self.anchor.poll(Direction::Write, context, |driver, key, context| {
                driver.poll_sendfile(context, key, file, offset, count)
            })
        })
        .await
    }

    /// Brings the stream to this core, so that calls that do not wait succeed.
    ///
    /// # Errors
    /// Off a core; `NotConnected` after a release; `ResourceBusy` while another task receives.
    pub async fn move_here(&self) -> io::Result<()> {
        let _waits = self.reads.take(BYTES)?;
        self.anchor.move_here().await
    }

    /// Whether the running core has the stream, so that a call there finds every received byte.
    pub fn is_here(&self) -> bool {
        self.anchor.on_driver(|_, _| ()).is_some()
    }

    /// Returns the socket, for use without a driver, if the connection is idle. `None` means that
    /// bytes have arrived or a send is under way, and the stream is unchanged. After the release
    /// every call returns `NotConnected`.
    ///
    /// # Errors
    /// `NotConnected` after an earlier release; `ResourceBusy` while another task receives.
    pub async fn release(&self) -> io::Result<Option<OwnedFd>> {
        let _waits = self.reads.take(BYTES)?;
        let released = poll_fn(|context| {
            self.anchor
                .poll(Direction::Read, context, |driver, key, context| driver.poll_release(context, key))
        })
        .await?;
        if released.is_some() {
            self.anchor.released();
        }
        Ok(released)
    }

    /// Tells the peer that this side will send nothing more.
    ///
    /// # Errors
    /// The error of shutdown(2); `ResourceBusy` if a [`send`](Self::send) was not awaited. On
    /// another core than the stream, [`sent`](Self::sent) reports the error.
    pub fn shutdown_write(&self) -> io::Result<()> {
        if let Some(result) = self.anchor.on_driver(|driver, key| driver.shutdown_write(key)) {
            return result;
        }
        on_core()?;
        if !self.anchor.moves().queue_shutdown() {
            return Err(is_sending());
        }
        self.anchor.begin_move()
    }

    /// Lends the descriptor to `f`, for addresses and options.
    ///
    /// # Errors
    /// Off a core; `WouldBlock` while another core has the stream, which then begins to move: await
    /// [`move_here`](Self::move_here) first.
    ///
    /// # Panics
    /// If `f` uses another object of this core's driver, because the driver is in use while `f`
    /// runs.
    pub fn with_fd<R>(&self, f: impl FnOnce(BorrowedFd<'_>) -> R) -> io::Result<R> {
        self.anchor.on_driver_or_ask(|driver, key| f(driver.stream_fd(key)))
    }
}

/// Fails off a core, before a call has an effect.
pub(crate) fn on_core() -> Result<(), OffCore> {
    current(|_| ()).ok_or(OffCore)
}

#[cold]
fn is_sending() -> io::Error {
    let advice =
        "a send of this stream is under way: wait for its end (`sent`) before the next send or shutdown";
    io::Error::new(io::ErrorKind::ResourceBusy, advice)
}
