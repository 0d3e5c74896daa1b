//! Non-blocking sockets of the standard library, awaited through a [`Source`]: datagrams, and
//! anything else with a descriptor.
//!
//! The object stays usable on every core, because only the waits need a driver: the driver watches
//! a second descriptor of the object. Tested in `tests/watched.rs`.

use crate::{
    Source, consume_budget,
    net::{FULL_QUEUE_PAUSES, on_core},
    sleep,
};
use std::{
    io::{self, ErrorKind},
    net::{SocketAddr, UdpSocket as StdUdpSocket},
    os::{fd::AsFd, unix::net::UnixDatagram as StdUnixDatagram},
    path::Path,
};
use vermeil_io::blocks;
use vermeil_sched::BackOff;

/// An object with a descriptor, and waits for input and room. Has two descriptors. The address of a
/// dropped socket is free when both are closed: see [`Source`] for the second.
#[derive(Debug)]
pub struct Watched<T> {
    object: T,
    source: Source,
}

/// A UDP socket.
pub type UdpSocket = Watched<StdUdpSocket>;

/// A datagram socket with a path, or one of a pair.
pub type UnixDatagram = Watched<StdUnixDatagram>;

impl<T: AsFd> Watched<T> {
    /// Watches a non-blocking object.
    ///
    /// # Errors
    /// Off a core; no descriptor is left; `PermissionDenied` for files and folders; `InvalidInput`
    /// for an object that blocks.
    pub fn new(object: T) -> io::Result<Self> {
        let source = Source::new(object.as_fd().try_clone_to_owned()?)?;
        if blocks(object.as_fd())? {
            let advice = "a read of this object would block its core: make the object non-blocking first, \
                          for example by `set_nonblocking(true)`";
            return Err(io::Error::new(ErrorKind::InvalidInput, advice));
        }
        Ok(Self { object, source })
    }

    /// The object, on any core.
    pub fn get_ref(&self) -> &T {
        &self.object
    }

    /// Repeats `f` until `f` does not answer `WouldBlock`, and waits for input in between. One task
    /// at a time.
    ///
    /// # Errors
    /// The error of `f`; `ResourceBusy` while another task waits for input.
    pub async fn read_with<R>(&self, mut f: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        // Before `f`, because a cancelled wait after `f` would lose a datagram.
        consume_budget().await;
        loop {
            match f(&self.object) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.source.readable().await?,
                result => return result,
            }
        }
    }

    /// Repeats `f` until `f` does not answer `WouldBlock`, and waits for room in between. One task
    /// at a time.
    ///
    /// The kernel tells an unconnected UNIX datagram socket nothing about the receiver's queue. If
    /// `f` sends on such a socket and the queue is full, `f` is repeated without a pause. Connect
    /// the socket first, or use the `send_to` of [`UnixDatagram`].
    ///
    /// # Errors
    /// The error of `f`; `ResourceBusy` while another task waits for room.
    pub async fn write_with<R>(&self, mut f: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        // Before `f`, because a cancelled wait after `f` would lose a datagram.
        consume_budget().await;
        loop {
            match f(&self.object) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.source.writable().await?,
                result => return result,
            }
        }
    }
}

impl UdpSocket {
    /// A socket at `addr`; port 0 lets the kernel choose.
    ///
    /// # Errors
    /// Off a core, or the error of bind(2).
    pub fn bind(addr: SocketAddr) -> io::Result<Self> {
        let socket = StdUdpSocket::bind(addr)?;
        socket.set_nonblocking(true)?;
        Self::new(socket)
    }

    /// Receives a datagram; returns its length and sender. A longer datagram is cut.
    ///
    /// # Errors
    /// The error of recvfrom(2); `ResourceBusy` while another task waits here.
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.read_with(|socket| socket.recv_from(buffer)).await
    }

    /// Sends a datagram to `addr`.
    ///
    /// # Errors
    /// The error of sendto(2); `ResourceBusy` while another task waits here.
    pub async fn send_to(&self, bytes: &[u8], addr: SocketAddr) -> io::Result<usize> {
        self.write_with(|socket| socket.send_to(bytes, addr)).await
    }

    /// Receives a datagram of the peer that the socket is connected to (`get_ref().connect(..)`).
    ///
    /// # Errors
    /// As [`recv_from`](Self::recv_from).
    pub async fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_with(|socket| socket.recv(buffer)).await
    }

    /// Sends a datagram to the peer that the socket is connected to.
    ///
    /// # Errors
    /// As [`send_to`](Self::send_to).
    pub async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.write_with(|socket| socket.send(bytes)).await
    }
}

impl UnixDatagram {
    /// A socket at `path`, which must not exist.
    ///
    /// # Errors
    /// Off a core, or the error of bind(2).
    pub fn bind(path: &Path) -> io::Result<Self> {
        on_core()?;
        let socket = StdUnixDatagram::bind(path)?;
        socket.set_nonblocking(true)?;
        Self::new(socket)
    }

    /// Receives a datagram; returns its length. A longer datagram is cut.
    ///
    /// # Errors
    /// The error of recv(2); `ResourceBusy` while another task waits here.
    pub async fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_with(|socket| socket.recv(buffer)).await
    }

    /// Sends a datagram to the socket at `path`. While the queue of that socket is full, retries
    /// every few milliseconds until the future is dropped.
    ///
    /// # Errors
    /// The error of sendto(2); `ResourceBusy` while another task waits here.
    pub async fn send_to(&self, bytes: &[u8], path: &Path) -> io::Result<usize> {
        // Before the send, as in `write_with`.
        consume_budget().await;
        let mut pauses = BackOff::new(&FULL_QUEUE_PAUSES);
        let mut has_waited = false;
        loop {
            match self.object.send_to(bytes, path) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return result,
            }
            // The kernel reports room in the buffer of this socket, but none in the receiver's
            // queue. A send that blocks again waits for the receiver.
            if std::mem::replace(&mut has_waited, true) {
                sleep(pauses.advance()).await;
            } else {
                self.source.writable().await?;
            }
        }
    }
}
