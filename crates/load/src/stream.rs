//! A connection's bytes, plain or through TLS; and how connections are made.
//!
//! rustls does TLS without sockets; what it wants sent and what has come pass through here. Received ciphertext goes through one
//! buffer per core, so that idle connections hold none. Tested in `tests/nginx`.

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
use rustls::ClientConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use vermeil::{ConnectOptions, More, TcpStream};

use crate::trust::Tls;

/// Size of a core's receive buffers: large enough that one system call takes what a large body has ready.
pub(crate) const RECV_BUFFER_BYTES: u32 = 16 * 1024;
/// Requests up to this size are copied behind each other; longer ones are handed over. A guess: a page.
const COPIED_BYTES_MAX: usize = 4096;
/// Most bytes that a writer of HTTP/2 may hand over at once; it waits until they are sent. As much as one TLS record
/// holds, four times.
const WRITE_BYTES_MAX: usize = 64 * 1024;

thread_local! {
    /// What a core has just received and not decrypted.
    static CIPHER: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(RECV_BUFFER_BYTES as usize));
}

/// How the connections of a run are made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dial {
    pub(crate) options: ConnectOptions,
    /// Nothing: plain TCP.
    pub(crate) tls: Option<Tls>,
}

/// A connection.
pub(crate) enum Stream {
    Plain(TcpStream),
    Secure(Box<Secure>),
}

/// A connection through TLS.
pub(crate) struct Secure {
    stream: TcpStream,
    tls: ClientConnection,
    /// Whether the server has said that nothing more comes.
    has_ended: bool,
    /// Content that came with the handshake: a server of HTTP/2 does not wait to be asked.
    early: Vec<u8>,
}

impl Stream {
    /// Connects; over TLS with the handshake. Gives the time of the TCP handshake, too: about a round trip.
    pub(crate) async fn open(addr: SocketAddr, dial: &Dial) -> io::Result<(Self, Duration)> {
        let began = Instant::now();
        let stream = TcpStream::connect_with(addr, &dial.options).await?;
        let round_trip = began.elapsed();
        let Some(tls) = &dial.tls else { return Ok((Self::Plain(stream), round_trip)) };
        let mut tls = tls.connection().map_err(io::Error::other)?;
        // A request's content is sent as a whole, however long.
        tls.set_buffer_limit(None);
        let mut secure = Box::new(Secure { stream, tls, has_ended: false, early: Vec::new() });
        secure.handshake().await?;
        Ok((Self::Secure(secure), round_trip))
    }

    /// Sends `bytes`; an answer may be waited for at once.
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

    /// Whether the other side has reset a connection whose end has come. Sends a byte to find out: nothing else can use the
    /// connection any more.
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

    /// Appends what has arrived to `buffer`; `Ok(0)` is the end of the stream.
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

    /// Hands over what is to be sent, once what was before it has been.
    fn poll_write(&mut self, context: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let stream = match self {
            Self::Plain(stream) => &*stream,
            Self::Secure(secure) => &secure.stream,
        };
        // The future keeps nothing: what is under way is known to the driver.
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
            let arrived = poll_fn(|context| self.poll_arrived(context, &mut early)).await?;
            self.early = early;
            if arrived == 0 {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
        }
    }

    /// Sends what TLS has ready. `head` is the driver's empty buffer.
    fn hand_over(&mut self, mut head: Vec<u8>) -> io::Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut head)?;
        }
        if head.is_empty() { Ok(()) } else { self.stream.send(head, Bytes::new(), More::No) }
    }

    fn poll_recv(&mut self, context: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        let before = buffer.len();
        if !self.early.is_empty() {
            buffer.append(&mut self.early);
            return Poll::Ready(Ok(buffer.len() - before));
        }
        loop {
            let arrived = ready!(self.poll_arrived(context, buffer))?;
            if buffer.len() > before {
                return Poll::Ready(Ok(buffer.len() - before));
            }
            if arrived == 0 {
                return Poll::Ready(Ok(0));
            }
        }
    }

    /// Decrypts what arrives next and appends it to `buffer`; gives the encrypted bytes, or 0 at the end of the stream. An
    /// end that TLS does not vouch for is an error: somebody may have cut the connection.
    fn poll_arrived(&mut self, context: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        CIPHER.with_borrow_mut(|cipher| {
            cipher.clear();
            let count = ready!(self.stream.poll_recv(context, cipher))?;
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

/// A connection for h2, which counts the bytes that come.
pub(crate) struct Counted {
    stream: Stream,
    /// What has arrived and h2 has not taken, from `read` on.
    arrived: Vec<u8>,
    read: usize,
    received: Arc<AtomicU64>,
}

impl Counted {
    pub(crate) fn new(stream: Stream, received: Arc<AtomicU64>) -> Self {
        Self { stream, arrived: Vec::new(), read: 0, received }
    }
}

impl AsyncRead for Counted {
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

impl AsyncWrite for Counted {
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
        // Dropping the stream closes it; the run does not wait for what a finished connection still says.
        Poll::Ready(Ok(()))
    }
}
