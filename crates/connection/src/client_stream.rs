//! The bytes of a client's connection, plain or through TLS.
//!
//! A plain connection costs one branch. Bytes of TLS are decrypted from, and encrypted into,
//! buffers that a core's connections share, so a connection that waits holds no buffer. Leaves out
//! handshakes (the server). Tested through the binary (`crates/e2e/tests/e2e/tls.rs`).

use bytes::Bytes;
use rustix::net::{SendFlags, send};
use std::{
    cell::RefCell,
    io, mem,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    pin::pin,
    task::{Context, Poll},
};
use vermeil::{More, TcpStream};
use vermeil_exchange::ClientCheck;
use vermeil_http::gateway::ClientScheme;
use vermeil_tls::{ClientTrust, TlsFacts, TlsInput, TlsSession};

/// Received bytes that are decrypted at once. Four records.
const CIPHER_BYTES: usize = 64 * 1024;

/// Buffers for sending that a core keeps, and the largest that it keeps. The bound limits the
/// memory that a core keeps after a burst; a further buffer costs an allocation.
const SPARES_MAX: usize = 8;
const SPARE_BYTES_MAX: usize = 512 * 1024;

/// The most bytes of content that are encrypted at once. The encrypted copy of a body takes this
/// much memory.
pub(crate) const ENCRYPTED_AT_ONCE: usize = 256 * 1024;

thread_local! {
    /// The received bytes of a core that are not yet decrypted.
    static CIPHER: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(CIPHER_BYTES));
    /// Empty buffers for sending.
    static SPARES: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// The connection of a client.
pub struct ClientStream {
    tcp: TcpStream,
    secure: Option<Box<SecureState>>,
}

/// The state of TLS.
struct SecureState {
    session: TlsSession,
    /// The client has sent its last byte, and said so.
    has_ended: bool,
    /// The demands on the client's certificate, which the client has met.
    trust: Option<ClientTrust>,
}

impl ClientStream {
    /// A connection without TLS.
    pub fn plain(tcp: TcpStream) -> Self {
        Self { tcp, secure: None }
    }

    /// A connection after its handshake, whose client met the demands `trust`.
    pub fn secure(tcp: TcpStream, session: TlsSession, trust: Option<ClientTrust>) -> Self {
        let has_ended = session.has_ended();
        Self { tcp, secure: Some(Box::new(SecureState { session, has_ended, trust })) }
    }

    /// The client, as far as TLS knows it.
    pub(crate) fn client_check(&self) -> ClientCheck {
        self.secure.as_ref().map_or(ClientCheck::Plain, |secure| ClientCheck::Tls(secure.trust))
    }

    /// The connection below TLS.
    pub fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// The same, without the state of TLS.
    pub fn into_tcp(self) -> TcpStream {
        self.tcp
    }

    /// Whether the bytes go through TLS.
    #[inline]
    pub fn is_secure(&self) -> bool {
        self.secure.is_some()
    }

    /// The scheme of requests.
    pub fn scheme(&self) -> ClientScheme {
        if self.is_secure() { ClientScheme::Https } else { ClientScheme::Http }
    }

    /// The variables of programs about TLS; none without TLS.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        self.secure.as_ref().map(|secure| variables(secure.session.facts())).unwrap_or_default()
    }

    /// Lends the descriptor to `f`, for options.
    pub fn with_fd<R>(&self, f: impl FnOnce(BorrowedFd<'_>) -> R) -> io::Result<R> {
        self.tcp.with_fd(f)
    }

    /// Appends received content to `buffer`. `Ok(0)` is the end.
    #[inline]
    pub fn poll_recv(&mut self, context: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        match &mut self.secure {
            None => self.tcp.poll_recv(context, buffer),
            Some(secure) => secure.poll_recv(&self.tcp, context, buffer),
        }
    }

    /// Appends received bytes as they are, because nothing of them is answered any more.
    pub(crate) fn poll_recv_unread(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        self.tcp.poll_recv(context, buffer)
    }

    /// Hands `head` and `body` to the driver. See [`TcpStream::send`].
    #[inline]
    pub fn send(&mut self, head: Vec<u8>, body: Bytes, more: More) -> io::Result<()> {
        match &mut self.secure {
            None => self.tcp.send(head, body, more),
            Some(secure) => {
                let mut cipher = take_spare();
                secure.session.send([&head, &body], &mut cipher);
                keep_spare(head);
                self.tcp.send(cipher, Bytes::new(), more)
            }
        }
    }

    /// Waits until the kernel has taken every byte of the last send. See [`TcpStream::sent`].
    pub fn sent(&self) -> impl Future<Output = io::Result<Vec<u8>>> {
        self.tcp.sent()
    }

    /// Gives back the buffer of the last send, once the kernel has taken every byte, and returns
    /// whether that was so. An idle connection would keep up to [`ENCRYPTED_AT_ONCE`] bytes.
    pub(crate) fn drop_sent(&self, context: &mut Context<'_>) -> io::Result<bool> {
        match self.tcp.poll_sent(context)? {
            Poll::Ready(buffer) => {
                keep_spare(buffer);
                Ok(true)
            }
            Poll::Pending => Ok(false),
        }
    }

    /// Returns the socket if the connection is idle. The state of TLS stays.
    pub(crate) async fn release(&self) -> io::Result<Option<OwnedFd>> {
        self.tcp.release().await
    }

    /// Continues with the socket of [`release`](Self::release).
    ///
    /// # Errors
    /// The driver refuses the descriptor.
    pub(crate) fn resume(&mut self, socket: OwnedFd) -> io::Result<()> {
        self.tcp = TcpStream::resume(socket)?;
        Ok(())
    }

    /// Tells the client that no more content follows, if that needs bytes of TLS. Call this
    /// function when everything is sent, because the socket must have room.
    pub fn say_end(&mut self) {
        let Some(secure) = &mut self.secure else { return };
        secure.session.close();
        secure.send_output(&self.tcp);
    }

    /// Closes the sending side.
    pub fn shutdown_write(&mut self) -> io::Result<()> {
        self.say_end();
        self.tcp.shutdown_write()
    }
}

impl SecureState {
    fn poll_recv(
        &mut self,
        tcp: &TcpStream,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        let before = buffer.len();
        while !self.has_ended {
            let taken = take_cipher(|cipher| {
                let Poll::Ready(received) = tcp.poll_recv(context, cipher) else { return Poll::Pending };
                if received? == 0 {
                    // HTTP says where a request ends, so a lost end of TLS changes no request.
                    self.has_ended = true;
                    return Poll::Ready(Ok(()));
                }
                match self.session.receive(cipher, buffer) {
                    Ok(TlsInput::Open) => {}
                    Ok(TlsInput::Ended) => self.has_ended = true,
                    Err(failure) => {
                        // The alert waits, and leaves unless an answer is on its way.
                        if pin!(tcp.sent()).poll(context).is_ready() {
                            self.send_output(tcp);
                        }
                        return Poll::Ready(Err(io::Error::from(failure)));
                    }
                }
                Poll::Ready(Ok(()))
            });
            match taken {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) if buffer.len() > before => break,
                // A record without content, for example of a client that changes its key.
                Poll::Ready(Ok(())) => self.reply(tcp, context)?,
            }
        }
        Poll::Ready(Ok(buffer.len() - before))
    }

    /// Sends the output that a record without content led to: the refusal of a renegotiation. While
    /// an answer is on its way, the output waits for the next answer.
    fn reply(&mut self, tcp: &TcpStream, context: &mut Context<'_>) -> io::Result<()> {
        if !self.session.has_output() {
            return Ok(());
        }
        match tcp.poll_sent(context)? {
            Poll::Pending => Ok(()),
            Poll::Ready(buffer) => {
                keep_spare(buffer);
                match self.send_output(tcp) {
                    true => Ok(()),
                    false => Err(io::Error::other("the client does not read")),
                }
            }
        }
    }

    /// Sends the waiting output past the driver, and returns whether the kernel took all. A
    /// connection that goes on after a part would be broken.
    fn send_output(&mut self, tcp: &TcpStream) -> bool {
        let mut bytes = take_spare();
        self.session.take_output(&mut bytes);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let is_sent = bytes.is_empty() || {
            let sent = tcp.with_fd(|fd| send(fd.as_fd(), &bytes, flags));
            matches!(sent, Ok(Ok(count)) if count == bytes.len())
        };
        keep_spare(bytes);
        is_sent
    }
}

/// Lends the core's buffer of received bytes, empty.
pub fn take_cipher<R>(f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    CIPHER.with_borrow_mut(|cipher| {
        cipher.clear();
        f(cipher)
    })
}

/// An empty buffer for sending.
pub fn take_spare() -> Vec<u8> {
    SPARES.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Keeps the memory of a buffer for another send.
pub fn keep_spare(mut buffer: Vec<u8>) {
    if buffer.capacity() == 0 || buffer.capacity() > SPARE_BYTES_MAX {
        return;
    }
    buffer.clear();
    SPARES.with_borrow_mut(|spares| {
        if spares.len() < SPARES_MAX {
            spares.push(mem::take(&mut buffer));
        }
    });
}

/// The variables of programs about TLS, by the names of Apache.
fn variables(facts: TlsFacts) -> Vec<(&'static str, String)> {
    let TlsFacts { version, suite, server_name, client_certificate, is_resumed } = facts;
    let mut all = vec![
        ("SSL_PROTOCOL", version.to_owned()),
        ("SSL_CIPHER", suite),
        ("SSL_SESSION_RESUMED", if is_resumed { "Resumed" } else { "Initial" }.to_owned()),
        ("SSL_CLIENT_VERIFY", if client_certificate.is_some() { "SUCCESS" } else { "NONE" }.to_owned()),
    ];
    all.extend(server_name.map(|name| ("SSL_TLS_SNI", name)));
    all.extend(client_certificate.map(|pem| ("SSL_CLIENT_CERT", pem)));
    all
}
