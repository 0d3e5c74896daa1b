//! The records of a connection: decrypts received bytes, encrypts bytes to send.
//!
//! Output waits in the session until the caller takes it. The first records of a connection are
//! small, because a client decrypts a record only when its last packet has come. Tested below.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rustls::{ProtocolVersion, ServerConnection};
use std::io::{self, IoSlice, Read as _, Write as _};

/// Bytes of a small record: with its frame and the heads of IPv6 and TCP within a packet of 1,500
/// bytes.
const SMALL_RECORD_BYTES: usize = 1369;

/// Bytes that leave in small records. Ten packets are the first window of a connection (RFC 6928).
const SMALL_RECORDS_UNTIL: usize = 10 * SMALL_RECORD_BYTES;

/// Bytes of a large record (RFC 8446, section 5.1).
const LARGE_RECORD_BYTES: usize = 16 * 1024;

/// Bytes that are copied at once. On Zen 3, glibc 2.36 copies from 2,112 bytes on by `rep movsb`,
/// and an answer of 1 MB takes half as long again with that (measured).
const COPIED_AT_ONCE: usize = 2048;

/// The connection cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct TlsFailure {
    why: String,
    alert: Vec<u8>,
}

impl TlsFailure {
    pub(crate) fn new(why: impl Into<String>, alert: Vec<u8>) -> Self {
        Self { why: why.into(), alert }
    }

    /// A failure of which the peer is not told, because the peer does not speak TLS.
    pub(crate) fn silent(why: impl Into<String>) -> Self {
        Self::new(why, Vec::new())
    }

    /// The bytes that tell the peer; may be empty.
    pub fn alert(&self) -> &[u8] {
        &self.alert
    }
}

impl From<TlsFailure> for io::Error {
    fn from(failure: TlsFailure) -> Self {
        Self::new(io::ErrorKind::InvalidData, failure)
    }
}

/// The state after received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsInput {
    /// The peer may send more.
    Open,
    /// The peer has sent its last byte, and said so.
    Ended,
}

/// How a handshake ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeKind {
    /// With a key exchange and a signature.
    Full,
    /// With the secrets of an earlier session.
    Resumed,
}

/// The result of a handshake, for programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFacts {
    /// The version, as OpenSSL names it: `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite, by its name in the registry of IANA.
    pub suite: String,
    /// The name that the client asked for.
    pub server_name: Option<String>,
    /// The certificate of the client (PEM), if the client sent one.
    pub client_certificate: Option<String>,
    /// Whether the session was resumed.
    pub is_resumed: bool,
}

/// A session that has taken a part of its handshake.
#[derive(Debug)]
pub struct TlsFlight {
    /// The session, with its answer as output.
    pub session: TlsSession,
    /// Content that came with this part.
    pub content: Vec<u8>,
}

/// A connection of a client over TLS.
pub struct TlsSession {
    connection: ServerConnection,
    /// Bytes that were sent in small records.
    small_sent: usize,
    has_ended: bool,
}

impl std::fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsSession").finish_non_exhaustive()
    }
}

impl TlsSession {
    pub(crate) fn new(mut connection: ServerConnection) -> Self {
        // The caller takes the output after each call, so no bound is needed here.
        connection.set_buffer_limit(None);
        Self { connection, small_sent: 0, has_ended: false }
    }

    /// Whether the handshake goes on.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether the client has to greet again, because its greeting had no share for a key exchange
    /// that both support (HelloRetryRequest; RFC 8446, section 4.1.4). The expensive step of the
    /// handshake is the answer to the second greeting.
    pub fn asks_again(&self) -> bool {
        let kind = self.connection.handshake_kind();
        self.is_handshaking() && kind == Some(rustls::HandshakeKind::FullWithHelloRetryRequest)
    }

    /// Whether the peer has sent its last byte, and said so.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Takes received bytes of the handshake, also where the caller can give the session away only
    /// as a whole.
    ///
    /// # Errors
    /// The peer violates the protocol.
    pub fn go_on(mut self, received: &[u8]) -> Result<TlsFlight, TlsFailure> {
        let mut content = Vec::new();
        match self.receive(received, &mut content) {
            Ok(_) => Ok(TlsFlight { session: self, content }),
            Err(failure) => {
                let mut alert = Vec::new();
                self.take_output(&mut alert);
                Err(TlsFailure::new(failure.why, alert))
            }
        }
    }

    /// Decrypts received bytes, and appends the content to `into`. Output may wait afterwards.
    ///
    /// # Errors
    /// The peer violates the protocol. The alert for the peer waits as output.
    pub fn receive(&mut self, mut bytes: &[u8], into: &mut Vec<u8>) -> Result<TlsInput, TlsFailure> {
        while !bytes.is_empty() && !self.has_ended {
            self.connection.read_tls(&mut bytes).map_err(|error| TlsFailure::silent(error.to_string()))?;
            let state = self
                .connection
                .process_new_packets()
                .map_err(|error| TlsFailure::silent(error.to_string()))?;
            let count = state.plaintext_bytes_to_read();
            self.has_ended = state.peer_has_closed();
            if count > 0 {
                let before = into.len();
                into.resize(before + count, 0);
                let read = self.connection.reader().read_exact(&mut into[before..]);
                read.map_err(|error| TlsFailure::silent(error.to_string()))?;
            }
        }
        Ok(if self.has_ended { TlsInput::Ended } else { TlsInput::Open })
    }

    /// Encrypts `parts` in this order behind the waiting output, and moves all output to `into`.
    pub fn send(&mut self, parts: [&[u8]; 2], into: &mut Vec<u8>) {
        let [mut first, mut second] = parts;
        self.take_output(into);
        while !(first.is_empty() && second.is_empty()) {
            let is_small = self.small_sent < SMALL_RECORDS_UNTIL;
            let record = if is_small { SMALL_RECORD_BYTES } else { LARGE_RECORD_BYTES };
            let (head, rest) = first.split_at(first.len().min(record));
            let (body, behind) = second.split_at(second.len().min(record - head.len()));
            (first, second) = (rest, behind);
            if is_small {
                self.small_sent += head.len() + body.len();
            }
            let pieces = head.chunks(COPIED_AT_ONCE).chain(body.chunks(COPIED_AT_ONCE));
            let pieces: Vec<_> = pieces.map(IoSlice::new).collect();
            let taken = self.connection.writer().write_vectored(&pieces);
            debug_assert!(taken.is_ok_and(|count| count == head.len() + body.len()), "no bound on output");
            self.take_output(into);
        }
    }

    /// Tells the peer that no more content follows, as output.
    pub fn close(&mut self) {
        self.connection.send_close_notify();
    }

    /// Whether output waits.
    pub fn has_output(&self) -> bool {
        self.connection.wants_write()
    }

    /// Moves the waiting output to `into`.
    pub fn take_output(&mut self, into: &mut Vec<u8>) {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut PieceWriter(into)).expect("writing to memory does not fail");
        }
    }

    /// Whether the client asked for this protocol and got it (ALPN).
    pub fn speaks(&self, protocol: &[u8]) -> bool {
        self.connection.alpn_protocol() == Some(protocol)
    }

    /// How the handshake ended.
    pub fn handshake_kind(&self) -> HandshakeKind {
        match self.connection.handshake_kind() {
            Some(rustls::HandshakeKind::Resumed) => HandshakeKind::Resumed,
            _ => HandshakeKind::Full,
        }
    }

    /// The result of the handshake.
    pub fn facts(&self) -> TlsFacts {
        let suite = self.connection.negotiated_cipher_suite().map(|suite| suite.suite());
        // TLS 1.3 suites have the prefix of rustls, which no registry has.
        let suite = suite.and_then(|suite| suite.as_str()).unwrap_or_default().replace("TLS13_", "TLS_");
        TlsFacts {
            version: match self.connection.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "",
            },
            suite,
            server_name: self.connection.server_name().map(str::to_owned),
            client_certificate: self
                .connection
                .peer_certificates()
                .and_then(|chain| chain.first())
                .map(|certificate| pem(certificate)),
            is_resumed: self.handshake_kind() == HandshakeKind::Resumed,
        }
    }
}

/// Appends bytes in pieces of [`COPIED_AT_ONCE`].
struct PieceWriter<'a>(&'a mut Vec<u8>);

impl io::Write for PieceWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.reserve(bytes.len());
        for piece in bytes.chunks(COPIED_AT_ONCE) {
            self.0.extend_from_slice(piece);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A certificate as text (RFC 7468).
fn pem(certificate: &[u8]) -> String {
    let text = STANDARD.encode(certificate);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests;
