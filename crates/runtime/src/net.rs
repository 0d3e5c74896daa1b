//! TCP for tasks: listeners and streams on the core's driver.
//!
//! A socket belongs to the core that made it and is used by tasks that run there. A task that waits
//! for a socket of another core goes to that core with its color, where the color may; elsewhere
//! every call answers with [`OffCore`](crate::OffCore). Dropping a socket closes it, wherever that
//! is.

use crate::{
    core::{Core, current},
    error::OffCore,
    home::{Home, LetGo, OneWaiter},
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

/// Runs `f` on the driver of `home`, if this is its thread.
pub(crate) fn on_driver<R>(home: &Home, f: impl FnOnce(&mut Driver) -> R) -> Result<R, OffCore> {
    let here = |core: &Core| (core.home == *home).then(|| f(&mut core.driver.borrow_mut()));
    current(here).flatten().ok_or(OffCore)
}

/// Has this core's waits ask the network card for packets, for at most `up_to`, before it sleeps until the card interrupts; zero
/// ends that. For all that waits on this core; see [`Driver::busy_poll`](vermeil_io::Driver::busy_poll).
///
/// # Errors
/// Off a core, or when the kernel cannot: it takes Linux 6.9.
pub fn busy_poll(up_to: Duration) -> io::Result<()> {
    current(|core| core.driver.borrow_mut().busy_poll(up_to)).ok_or(OffCore)?
}

/// The core whose driver something new will live on. The color that runs stays there from now on: a driver answers on its
/// own core only.
pub(crate) fn home() -> Result<Home, OffCore> {
    current(|core| {
        core.note_driver_use();
        core.home.clone()
    })
    .ok_or(OffCore)
}

/// Polls something on the driver of `home`. Elsewhere the color that runs goes there first, where
/// it may.
pub(crate) fn poll_on<R>(
    home: &Home,
    context: &mut Context<'_>,
    f: impl FnOnce(&mut Driver, &mut Context<'_>) -> Poll<io::Result<R>>,
) -> Poll<io::Result<R>> {
    let off = match on_driver(home, |driver| f(driver, context)) {
        Ok(polled) => return polled,
        Err(off) => off,
    };
    let goes = |core: &Core| core.shared.id == home.runtime() && core.follow(home.core());
    if current(goes) == Some(true) {
        // Polled again when the color is there.
        context.waker().wake_by_ref();
        return Poll::Pending;
    }
    Poll::Ready(Err(off.into()))
}

/// What two tasks cannot wait for at once.
const CONNECTIONS: &str = "connections of this listener";
const BYTES: &str = "bytes of this stream";
const THE_SEND: &str = "the end of a send of this stream";

/// A listening socket, of the core that made it: the color that did stays there from then on. On
/// other cores [`accept`](Self::accept) brings the color there, where it may go, and the other
/// calls that may fail do so, with [`OffCore`](crate::OffCore). Dropping it, anywhere, closes it,
/// and resets the connections that were not accepted.
#[derive(Debug)]
pub struct TcpListener {
    home: Home,
    key: ListenerKey,
    accepts: OneWaiter,
}

impl TcpListener {
    /// Takes over a bound, listening, non-blocking socket.
    ///
    /// # Errors
    /// Off a core, or when the driver refuses the descriptor.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        let home = home()?;
        let key = on_driver(&home, |driver| driver.add_listener(socket))??;
        Ok(Self { home, key, accepts: OneWaiter::default() })
    }

    /// The next connection. One task at a time.
    ///
    /// # Errors
    /// What accept(2) says, one error per failure: out of descriptors, for one. Wait before the
    /// next call then. `ResourceBusy` while another task waits here.
    pub async fn accept(&self) -> io::Result<OwnedFd> {
        let _waits = self.accepts.take(CONNECTIONS)?;
        let key = self.key;
        poll_fn(|context| poll_on(&self.home, context, |driver, context| driver.poll_accept(context, key)))
            .await
    }

    /// Lets `f` look at the descriptor, for options.
    ///
    /// # Errors
    /// `NotConnected` once it is closed; off its core.
    pub fn with_fd<R>(&self, f: impl FnOnce(BorrowedFd<'_>) -> R) -> io::Result<R> {
        let looked = on_driver(&self.home, |driver| driver.listener_fd(self.key).map(f))?;
        looked.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Connections that wait to be accepted; none where that is not known.
    pub fn waiting_count(&self) -> usize {
        on_driver(&self.home, |driver| driver.waiting_count(self.key)).unwrap_or(0)
    }

    /// Stops listening. Connections that the kernel has completed are still given by [`accept`](Self::accept), then
    /// it fails.
    pub fn close(&self) {
        self.home.let_go(LetGo::Closed(self.key));
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        self.home.let_go(LetGo::Listener(self.key));
    }
}

/// The first and the longest pause between attempts to enter the full queue of a UNIX listener, which tells nobody when
/// it has room. Guesses: an accept loop empties its queue in less than the first, a blocked one need not be asked more
/// often than the last.
const FULL_QUEUE_PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(32));

/// A connected socket, of the core that made it: the color that did stays there from then on. On
/// other cores the calls that wait bring the color there, where it may go, and the others fail,
/// with [`OffCore`](crate::OffCore).
///
/// Dropping it, anywhere, closes it. When the kernel has not taken every byte of a
/// [`send`](Self::send) by then, the connection is reset, so that the peer does not take the bytes
/// so far for all: await [`sent`](Self::sent) before the drop to have all delivered.
#[derive(Debug)]
pub struct TcpStream {
    home: Home,
    key: StreamKey,
    reads: OneWaiter,
    writes: OneWaiter,
}

impl TcpStream {
    /// Takes over a connected, non-blocking socket.
    ///
    /// # Errors
    /// Off a core, or when the driver refuses the descriptor.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        Self::on(home()?, |driver| driver.add_stream(socket))
    }

    /// As [`new`](Self::new), for a socket on which something has come already, as a rule: what has is received by the first
    /// [`poll_recv`](Self::poll_recv).
    ///
    /// # Errors
    /// As `new`.
    pub fn resume(socket: OwnedFd) -> io::Result<Self> {
        Self::on(home()?, |driver| driver.resume_stream(socket))
    }

    /// Connects to `addr`. Dropping the future gives up.
    ///
    /// # Errors
    /// Off a core; no descriptors or local ports left; or why the other side cannot be reached: `ConnectionRefused`,
    /// `TimedOut` (after the kernel's own two minutes: use [`Sleep::limit`](crate::Sleep::limit) for less).
    pub async fn connect(addr: SocketAddr) -> io::Result<Self> {
        Self::connect_with(addr, &ConnectOptions::default()).await
    }

    /// As [`connect`](Self::connect), from a local address, or with a receive buffer of a certain size.
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

    /// Of a connection that was made at once.
    fn connected(home: Home, socket: OwnedFd) -> io::Result<Self> {
        Self::on(home, |driver| driver.add_connected(socket))
    }

    fn on(home: Home, add: impl FnOnce(&mut Driver) -> io::Result<StreamKey>) -> io::Result<Self> {
        let key = on_driver(&home, add)??;
        Ok(Self { home, key, reads: OneWaiter::default(), writes: OneWaiter::default() })
    }

    /// Connects to the UNIX socket at `path`. While the queue of its listener is full, asks again every few
    /// milliseconds, for as long as the future is kept.
    ///
    /// # Errors
    /// Off a core, or what connect(2) says: `NotFound` or `ConnectionRefused` if nobody listens there.
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

    /// Appends what has arrived to `buffer`; waits until something has. `Ok(0)` is the end of the
    /// stream. One task at a time.
    ///
    /// # Errors
    /// What recv(2) says; `ResourceBusy` while another task waits here.
    pub async fn recv(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let _waits = self.reads.take(BYTES)?;
        poll_fn(|context| self.receive(context, buffer)).await
    }

    /// As [`recv`](Self::recv), for use in a poll function: the task that polled last is woken.
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

    /// Hands `head` and `body` to the driver, which sends them in this order. One send at a time: the one before must
    /// have been waited for with [`sent`](Self::sent). A drop before that may reset the connection.
    ///
    /// # Errors
    /// Off its core; `ResourceBusy` when the send before was not waited for. What goes wrong while
    /// sending is said by `sent`.
    pub fn send(&self, head: Vec<u8>, body: Bytes, more: More) -> io::Result<()> {
        on_driver(&self.home, |driver| driver.start_send(self.key, head, body, more))?
    }

    /// Waits until the kernel has every byte of the last [`send`](Self::send); gives its `head`
    /// back, empty. One task at a time.
    ///
    /// # Errors
    /// What send(2) says; `ResourceBusy` while another task waits here or for
    /// [`sendfile`](Self::sendfile).
    pub async fn sent(&self) -> io::Result<Vec<u8>> {
        let _waits = self.writes.take(THE_SEND)?;
        let key = self.key;
        poll_fn(|context| poll_on(&self.home, context, |driver, context| driver.poll_sent(context, key)))
            .await
    }

    /// Sends up to `count` bytes of `file` from `offset`, which it advances, without copying them through this
    /// process. `Ok(0)`: the file has no byte there. One task at a time.
    ///
    /// # Errors
    /// What sendfile(2) says; `ResourceBusy` when a [`send`](Self::send) was not waited for, or
    /// while another task waits.
    pub async fn sendfile(&self, file: BorrowedFd<'_>, offset: &mut u64, count: usize) -> io::Result<usize> {
        let _waits = self.writes.take(THE_SEND)?;
        poll_fn(|context| {
            poll_on(&self.home, context, |driver, context| {
                driver.poll_sendfile(context, self.key, file, offset, count)
            })
        })
        .await
    }

    /// Gives the socket back, for another core to go on with, if nothing happens on it: `None` says that something has arrived
    /// or is under way, and the stream is as before. Once it was given back every call answers `NotConnected`.
    ///
    /// # Errors
    /// `NotConnected` if it was given back before; `ResourceBusy` while another task receives.
    pub async fn release(&self) -> io::Result<Option<OwnedFd>> {
        let _waits = self.reads.take(BYTES)?;
        let key = self.key;
        poll_fn(|context| poll_on(&self.home, context, |driver, context| driver.poll_release(context, key)))
            .await
    }

    /// Tells the peer that nothing more will be sent.
    ///
    /// # Errors
    /// What shutdown(2) says; `ResourceBusy` when a [`send`](Self::send) was not waited for; off
    /// its core.
    pub fn shutdown_write(&self) -> io::Result<()> {
        on_driver(&self.home, |driver| driver.shutdown_write(self.key))?
    }

    /// Lets `f` look at the descriptor, for addresses and options.
    ///
    /// # Errors
    /// Off its core.
    pub fn with_fd<R>(&self, f: impl FnOnce(BorrowedFd<'_>) -> R) -> io::Result<R> {
        Ok(on_driver(&self.home, |driver| f(driver.stream_fd(self.key).as_fd()))?)
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        self.home.let_go(LetGo::Stream(self.key));
    }
}
