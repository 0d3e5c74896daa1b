//! TCP for tasks: listeners and streams on the core's driver.
//!
//! A socket belongs to the core that made the socket, and tasks on that core use it. A task that
//! waits for a socket of another core moves there with its color, if the color may move. Otherwise
//! every call returns [`OffCore`](crate::OffCore). Dropping a socket closes it, on any thread.

use crate::{
    core::{Core, current},
    error::OffCore,
    home_core::{CloseRequest, HomeCore, OneWaiter},
    time::sleep,
};
use bytes::Bytes;
use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    task::{Context, Poll},
    time::Duration,
};
use vermeil_io::{
    ConnectOptions, Connecting, Driver, ListenerKey, More, StreamKey, connect_tcp, connect_unix,
};

/// Runs `f` on the driver of `home`, if this thread is that core.
pub(crate) fn on_driver<R>(home: &HomeCore, f: impl FnOnce(&mut Driver) -> R) -> Result<R, OffCore> {
    let here = |core: &Core| (core.home == *home).then(|| f(&mut core.driver.borrow_mut()));
    current(here).flatten().ok_or(OffCore)
}

/// Lets this core's waits poll the network card for packets, for at most `up_to`, before the core
/// sleeps until an interrupt; zero ends the polling. Affects all waits on this core; see
/// [`Driver::busy_poll`](vermeil_io::Driver::busy_poll).
///
/// # Errors
/// Off a core, or if the kernel is older than Linux 6.9.
pub fn busy_poll(up_to: Duration) -> io::Result<()> {
    current(|core| core.driver.borrow_mut().busy_poll(up_to)).ok_or(OffCore)?
}

/// The core for a new object of a driver. The running color stays there from now on, because a
/// driver answers only on its own core.
pub(crate) fn home() -> Result<HomeCore, OffCore> {
    current(|core| {
        core.note_driver_use();
        core.home.clone()
    })
    .ok_or(OffCore)
}

/// Polls an object on the driver of `home`. On another core the running color first moves to
/// `home`, if the color may move.
pub(crate) fn poll_on<R>(
    home: &HomeCore,
    context: &mut Context<'_>,
    f: impl FnOnce(&mut Driver, &mut Context<'_>) -> Poll<io::Result<R>>,
) -> Poll<io::Result<R>> {
    let off = match on_driver(home, |driver| f(driver, context)) {
        Ok(polled) => return polled,
        Err(off) => off,
    };
    let goes = |core: &Core| core.shared.id == home.runtime() && core.follow(home.core());
    if current(goes) == Some(true) {
        // Polled again after the move of the color.
        context.waker().wake_by_ref();
        return Poll::Pending;
    }
    Poll::Ready(Err(off.into()))
}

/// Resources that two tasks cannot wait for at once.
const CONNECTIONS: &str = "connections of this listener";
const BYTES: &str = "bytes of this stream";
const THE_SEND: &str = "the end of a send of this stream";

/// A listening socket of the core that made it; the making color stays on that core from then on.
/// On another core [`accept`](Self::accept) moves the color there, if the color may move. Other
/// fallible calls return [`OffCore`](crate::OffCore). Dropping the listener, on any thread, closes
/// the socket and resets connections that were not accepted.
#[derive(Debug)]
pub struct TcpListener {
    home: HomeCore,
    key: ListenerKey,
    accepts: OneWaiter,
}

impl TcpListener {
    /// Takes over a bound, listening, non-blocking socket.
    ///
    /// # Errors
    /// Off a core, or if the driver refuses the descriptor.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        let home = home()?;
        let key = on_driver(&home, |driver| driver.add_listener(socket))??;
        Ok(Self { home, key, accepts: OneWaiter::default() })
    }

    /// The next connection. A single task at a time.
    ///
    /// # Errors
    /// The error of accept(2), once per failure: for example, no descriptors are left. Wait before
    /// the next call then. `ResourceBusy` while another task waits here.
    pub async fn accept(&self) -> io::Result<OwnedFd> {
        let _waits = self.accepts.take(CONNECTIONS)?;
        let key = self.key;
        poll_fn(|context| poll_on(&self.home, context, |driver, context| driver.poll_accept(context, key)))
            .await
    }

    /// Lends the descriptor to `f`, for options.
    ///
    /// # Errors
    /// `NotConnected` after a close; [`OffCore`](crate::OffCore) on another core.
    pub fn with_fd<R>(&self, f: impl FnOnce(BorrowedFd<'_>) -> R) -> io::Result<R> {
        let looked = on_driver(&self.home, |driver| driver.listener_fd(self.key).map(f))?;
        looked.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Number of connections that wait to be accepted; 0 if unknown.
    pub fn waiting_count(&self) -> usize {
        on_driver(&self.home, |driver| driver.waiting_count(self.key)).unwrap_or(0)
    }

    /// Stops listening. [`accept`](Self::accept) still returns connections that the kernel has
    /// completed, and then fails.
    pub fn close(&self) {
        self.home.close_on_core(CloseRequest::Closed(self.key));
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        self.home.close_on_core(CloseRequest::Listener(self.key));
    }
}

/// The first and the longest pause between attempts to enter the full queue of a UNIX listener,
/// because the kernel does not report room in the queue. Guesses: an accept loop empties its queue
/// in less than the first pause, and a blocked loop needs no more frequent attempts than the last.
const FULL_QUEUE_PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(32));

/// A connected socket of the core that made it; the making color stays on that core from then on.
/// On another core the calls that wait move the color there, if the color may move. Other calls
/// return [`OffCore`](crate::OffCore).
///
/// Dropping the stream, on any thread, closes the socket. If the kernel has not taken every byte of
/// a [`send`](Self::send) by then, the connection is reset, so that the peer does not mistake the
/// partial data for all data. Await [`sent`](Self::sent) before the drop to deliver all bytes.
#[derive(Debug)]
pub struct TcpStream {
    home: HomeCore,
    key: StreamKey,
    reads: OneWaiter,
    writes: OneWaiter,
}

impl TcpStream {
    /// Takes over a connected, non-blocking socket.
    ///
    /// # Errors
    /// Off a core, or if the driver refuses the descriptor.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        Self::on(home()?, |driver| driver.add_stream(socket))
    }

    /// As [`new`](Self::new), for a socket that has probably received bytes already: the first
    /// [`poll_recv`](Self::poll_recv) receives those bytes.
    ///
    /// # Errors
    /// As `new`.
    pub fn resume(socket: OwnedFd) -> io::Result<Self> {
        Self::on(home()?, |driver| driver.resume_stream(socket))
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
        let home = home()?;
        let socket = match connect_tcp(addr, options)? {
            Connecting::Done(socket) => return Self::connected(home, socket),
            Connecting::UnderWay(socket) => socket,
        };
        let stream = Self::on(home, |driver| driver.add_connecting(socket))?;
        let (home, key) = (&stream.home, stream.key);
        poll_fn(|context| poll_on(home, context, |driver, context| driver.poll_connected(context, key)))
            .await?;
        Ok(stream)
    }

    /// For a connection that was made at once.
    fn connected(home: HomeCore, socket: OwnedFd) -> io::Result<Self> {
        Self::on(home, |driver| driver.add_connected(socket))
    }

    fn on(home: HomeCore, add: impl FnOnce(&mut Driver) -> io::Result<StreamKey>) -> io::Result<Self> {
        let key = on_driver(&home, add)??;
        Ok(Self { home, key, reads: OneWaiter::default(), writes: OneWaiter::default() })
    }

    /// Connects to the UNIX socket at `path`. While the queue of the listener is full, retries
    /// every few milliseconds until the future is dropped.
    ///
    /// # Errors
    /// Off a core, or the error of connect(2): `NotFound` or `ConnectionRefused` if there is no
    /// listener.
    pub async fn connect_unix(path: &Path) -> io::Result<Self> {
        let home = home()?;
        let mut pause = FULL_QUEUE_PAUSE.0;
        loop {
            match connect_unix(path) {
                Ok(socket) => return Self::connected(home, socket),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            sleep(pause).await;
            pause = (2 * pause).min(FULL_QUEUE_PAUSE.1);
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
        poll_on(&self.home, context, |driver, context| driver.poll_recv(context, self.key, buffer))
    }

    /// Hands `head` and `body` to the driver, which sends them in this order. A single send at a
    /// time: first await [`sent`](Self::sent) for the previous send. A drop before that may reset
    /// the connection.
    ///
    /// # Errors
    /// [`OffCore`](crate::OffCore) on another core; `ResourceBusy` if the previous send was not
    /// awaited. `sent` reports errors of the send.
    pub fn send(&self, head: Vec<u8>, body: Bytes, more: More) -> io::Result<()> {
        on_driver(&self.home, |driver| driver.start_send(self.key, head, body, more))?
    }

    /// Waits until the kernel has taken every byte of the last [`send`](Self::send); returns its
    /// `head`, empty. A single task at a time.
    ///
    /// # Errors
    /// The error of send(2); `ResourceBusy` while another task waits here or for
    /// [`sendfile`](Self::sendfile).
    pub async fn sent(&self) -> io::Result<Vec<u8>> {
        let _waits = self.writes.take(THE_SEND)?;
        let key = self.key;
        poll_fn(|context| poll_on(&self.home, context, |driver, context| driver.poll_sent(context, key)))
            .await
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
            poll_on(&self.home, context, |driver, context| {
                driver.poll_sendfile(context, self.key, file, offset, count)
            })
        })
        .await
    }

    /// Returns the socket, for use on another core, if the connection is idle. `None` means that
    /// bytes have arrived or a send is under way, and the stream is unchanged. After the release
    /// every call returns `NotConnected`.
    ///
    /// # Errors
    /// `NotConnected` after an earlier release; `ResourceBusy` while another task receives.
    pub async fn release(&self) -> io::Result<Option<OwnedFd>> {
        let _waits = self.reads.take(BYTES)?;
        let key = self.key;
        poll_fn(|context| poll_on(&self.home, context, |driver, context| driver.poll_release(context, key)))
            .await
    }

    /// Tells the peer that this side will send nothing more.
    ///
    /// # Errors
    /// The error of shutdown(2); `ResourceBusy` if a [`send`](Self::send) was not awaited;
    /// [`OffCore`](crate::OffCore) on another core.
    pub fn shutdown_write(&self) -> io::Result<()> {
        on_driver(&self.home, |driver| driver.shutdown_write(self.key))?
    }

    /// Lends the descriptor to `f`, for addresses and options.
    ///
    /// # Errors
    /// [`OffCore`](crate::OffCore) on another core.
    pub fn with_fd<R>(&self, f: impl FnOnce(BorrowedFd<'_>) -> R) -> io::Result<R> {
        Ok(on_driver(&self.home, |driver| f(driver.stream_fd(self.key).as_fd()))?)
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        self.home.close_on_core(CloseRequest::Stream(self.key));
    }
}
