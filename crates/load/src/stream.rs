//! The bytes of a connection, plain or through TLS, and the opening of connections.
//!
//! rustls has no sockets, so its input and output pass through this file. Received ciphertext goes
//! through one buffer per core, so that idle connections hold no buffer. Tested in `tests/nginx`.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustls::{ClientConnection, HandshakeKind};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use vermeil::{ConnectOptions, More, TcpStream};

use crate::tls_verify::Tls;

/// Size of a core's receive buffers: one system call takes the available bytes of a large body.
pub(crate) const RECV_BUFFER_BYTES: u32 = 16 * 1024;
/// Requests up to this size are copied into the driver's buffer; longer requests are sent without a
/// copy. A guess: a page.
const COPIED_BYTES_MAX: usize = 4096;
/// Maximum number of bytes that HTTP/2 may write at once. The next write waits until these are
/// sent. Four times the size of a TLS record.
const WRITE_BYTES_MAX: usize = 64 * 1024;

thread_local! {
    /// The received bytes of a core that are not yet decrypted.
    static CIPHER: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(RECV_BUFFER_BYTES as usize));
}

/// The parameters for opening connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dial {
    pub(crate) options: ConnectOptions,
    /// `None`: plain TCP.
    pub(crate) tls: Option<Tls>,
}

/// A connection.
pub(crate) enum LoadStream {
    Plain(TcpStream),
    Secure(Box<Secure>),
}

/// A connection through TLS.
pub(crate) struct Secure {
    stream: TcpStream,
    tls: ClientConnection,
    /// Whether the server has sent the close of TLS (`close_notify`).
    has_ended: bool,
    /// Content that arrived with the handshake, because an HTTP/2 server does not wait for a
    /// request.
    early: Vec<u8>,
}

impl LoadStream {
    /// Connects, over TLS with the handshake. Also returns the time of the TCP handshake: about a
    /// round trip.
    pub(crate) async fn open(addr: SocketAddr, dial: &Dial) -> io::Result<(Self, Duration)> {
        let began = Instant::now();
        let stream = TcpStream::connect_with(addr, &dial.options).await?;
        let round_trip = began.elapsed();
        let Some(tls) = &dial.tls else { return Ok((Self::Plain(stream), round_trip)) };
        let mut tls = tls.connection().map_err(io::Error::other)?;
        // A request's content is sent as a whole, whatever its length.
        tls.set_buffer_limit(None);
        let mut secure = Box::new(Secure { stream, tls, has_ended: false, early: Vec::new() });
        secure.handshake().await?;
        Ok((Self::Secure(secure), round_trip))
    }

    /// How the handshake ended; `None` over plain TCP.
    pub(crate) fn handshake_kind(&self) -> Option<HandshakeKind> {
        match self {
            Self::Plain(_) => None,
            Self::Secure(secure) => secure.tls.handshake_kind(),
        }
    }

    /// Sends `bytes`. The caller may wait for an answer at once.
    pub(crate) async fn send(&mut self, bytes: &Bytes) -> io::Result<()> {
        match self {
            Self::Plain(stream) => {
                let mut head = stream.sent().await?;
                let mut body = Bytes::new();
                if bytes.len() <= COPIED_BYTES_MAX {
                    head.extend_from_slice(bytes);
                } else {
                    body = bytes.clone();
                }
                stream.send(head, body, More::No)
            }
            Self::Secure(secure) => {
                let head = secure.stream.sent().await?;
                secure.tls.writer().write_all(bytes)?;
                secure.hand_over(head)
            }
        }
    }

    /// Whether the peer has reset a connection whose end has come. Sends a byte as a probe, because
    /// no other use of the connection is possible.
    pub(crate) async fn is_broken(&mut self) -> bool {
        let stream = match self {
            Self::Plain(stream) => &*stream,
            Self::Secure(secure) => &secure.stream,
        };
        let probe = async || -> io::Result<()> {
            let mut head = stream.sent().await?;
            head.push(b'\n');
            stream.send(head, Bytes::new(), More::No)?;
            stream.sent().await.map(drop)
        };
        probe().await.is_err()
    }

    /// Appends the received bytes to `buffer`. `Ok(0)` is the end of the stream.
    pub(crate) fn poll_recv(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => stream.poll_recv(context, buffer),
            Self::Secure(secure) => secure.poll_recv(context, buffer),
        }
    }

    /// Brings the stream to this core, for [`try_recv`](Self::try_recv).
    pub(crate) async fn move_here(&self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.move_here().await,
            Self::Secure(secure) => secure.stream.move_here().await,
        }
    }

    /// Appends the received bytes to `buffer`, without a wait. `None`: nothing has arrived.
    pub(crate) fn try_recv(&mut self, buffer: &mut Vec<u8>) -> io::Result<Option<usize>> {
        match self {
            Self::Plain(stream) => stream.try_recv(buffer),
            Self::Secure(secure) => {
                let receive = |stream: &TcpStream, cipher: &mut Vec<u8>| {
                    stream.try_recv(cipher).transpose().map_or(Poll::Pending, Poll::Ready)
                };
                match secure.receive(buffer, receive) {
                    Poll::Ready(received) => received.map(Some),
                    Poll::Pending => Ok(None),
                }
            }
        }
    }

    /// Writes `slices` when the bytes of the last write are sent.
    fn poll_write(&mut self, context: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let stream = match self {
            Self::Plain(stream) => &*stream,
            Self::Secure(secure) => &secure.stream,
        };
        // The future holds no state, because the driver keeps the state of the send.
        let mut head = ready!(pin!(stream.sent()).poll(context))?;
        let mut count = 0;
        let parts = slices.iter().map(|slice| {
            let take = slice.len().min(WRITE_BYTES_MAX - count);
            count += take;
            &slice[..take]
        });
        match self {
            Self::Plain(stream) => {
                parts.for_each(|part| head.extend_from_slice(part));
                if !head.is_empty() {
                    stream.send(head, Bytes::new(), More::No)?;
                }
            }
            Self::Secure(secure) => {
                for part in parts {
                    secure.tls.writer().write_all(part)?;
                }
                secure.hand_over(head)?;
            }
        }
        Poll::Ready(Ok(count))
    }
}

impl Secure {
    async fn handshake(&mut self) -> io::Result<()> {
        loop {
            if self.tls.wants_write() {
                let head = self.stream.sent().await?;
                self.hand_over(head)?;
            }
            if !self.tls.is_handshaking() {
                return Ok(());
            }
            let mut early = std::mem::take(&mut self.early);
            let arrived = poll_fn(|context| {
                self.arrive(&mut early, |stream, cipher| stream.poll_recv(context, cipher))
            })
            .await?;
            self.early = early;
            if arrived == 0 {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
        }
    }

    /// Sends the pending output of TLS. `head` is the driver's empty buffer.
    fn hand_over(&mut self, mut head: Vec<u8>) -> io::Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut head)?;
        }
        if head.is_empty() { Ok(()) } else { self.stream.send(head, Bytes::new(), More::No) }
    }

    fn poll_recv(&mut self, context: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        self.receive(buffer, |stream, cipher| stream.poll_recv(context, cipher))
    }

    /// Appends content to `buffer`. `receive` gets the encrypted bytes.
    fn receive(
        &mut self,
        buffer: &mut Vec<u8>,
        mut receive: impl FnMut(&TcpStream, &mut Vec<u8>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let before = buffer.len();
        if !self.early.is_empty() {
            buffer.append(&mut self.early);
            return Poll::Ready(Ok(buffer.len() - before));
        }
        loop {
            let arrived = ready!(self.arrive(buffer, &mut receive))?;
            if buffer.len() > before {
                return Poll::Ready(Ok(buffer.len() - before));
            }
            if arrived == 0 {
                return Poll::Ready(Ok(0));
            }
        }
    }

    /// Decrypts the next received bytes into `buffer`. Returns the number of encrypted bytes, or 0
    /// at the end of the stream. An end without `close_notify` is an error, because an attacker may
    /// have cut the connection.
    fn arrive(
        &mut self,
        buffer: &mut Vec<u8>,
        receive: impl FnOnce(&TcpStream, &mut Vec<u8>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        CIPHER.with_borrow_mut(|cipher| {
            cipher.clear();
            let count = ready!(receive(&self.stream, cipher))?;
            let mut rest = &cipher[..];
            while !rest.is_empty() && !self.has_ended {
                self.tls.read_tls(&mut rest)?;
                let state = self.tls.process_new_packets().map_err(io::Error::other)?;
                let plain = state.plaintext_bytes_to_read();
                let before = buffer.len();
                buffer.resize(before + plain, 0);
                self.tls.reader().read_exact(&mut buffer[before..])?;
                self.has_ended = state.peer_has_closed();
            }
            if count == 0 && !self.has_ended && !self.tls.is_handshaking() {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            Poll::Ready(Ok(if self.has_ended { 0 } else { count }))
        })
    }
}

/// A connection for h2 that counts received bytes.
pub(crate) struct CountedStream {
    stream: LoadStream,
    /// Received bytes that h2 has not read, from `read` on.
    arrived: Vec<u8>,
    read: usize,
    received: Arc<AtomicU64>,
}

impl CountedStream {
    pub(crate) fn new(stream: LoadStream, received: Arc<AtomicU64>) -> Self {
        Self { stream, arrived: Vec::new(), read: 0, received }
    }
}

impl AsyncRead for CountedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.read == this.arrived.len() {
            this.arrived.clear();
            this.read = 0;
            let count = ready!(this.stream.poll_recv(context, &mut this.arrived))?;
            this.received.fetch_add(count as u64, Ordering::Relaxed);
        }
        let unread = &this.arrived[this.read..];
        let count = unread.len().min(buffer.remaining());
        buffer.put_slice(&unread[..count]);
        this.read += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for CountedStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().stream.poll_write(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().stream.poll_write(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Dropping the stream closes the connection. The run does not wait for later bytes of a
        // finished connection.
        Poll::Ready(Ok(()))
    }
}
