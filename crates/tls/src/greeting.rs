//! The first message of a client (ClientHello), and the expensive step that answers it.
//!
//! Reading the message is cheap. The answer needs a key exchange and a signature, 0.1 to 1.5 ms, so
//! the caller may run [`ClientGreeting::answer`] elsewhere. Tested in `session.rs`.

use crate::{
    provider::is_chacha20,
    session::{TlsFailure, TlsFlight, TlsSession},
    store::HostTlsConfig,
};
use rustls::{
    CipherSuite, Error, PeerIncompatible, ServerConfig,
    server::{Accepted, Acceptor},
};
use std::sync::Arc;

/// The content type of a TLS record that carries a handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// The content type of an alert, its version and length, then "fatal" and `unrecognized_name`
/// (RFC 6066, section 3).
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// In place of a cipher suite: the client speaks an older version than it can (RFC 7507).
const FALLBACK_SCSV: u16 = 0x5600;

/// As [`UNRECOGNIZED_NAME`], with `inappropriate_fallback` (RFC 7507, section 3).
const INAPPROPRIATE_FALLBACK: [u8; 7] = [21, 3, 3, 0, 2, 2, 86];

/// As [`UNRECOGNIZED_NAME`], with `protocol_version`. Only TLS 1.2 brought the list of signatures,
/// whose absence would lead to `handshake_failure`, and users would look for the fault elsewhere.
const PROTOCOL_VERSION: [u8; 7] = [21, 3, 3, 0, 2, 2, 70];

/// The result of the first bytes of a client.
#[derive(Debug)]
pub enum FirstBytes {
    /// More bytes are needed.
    More,
    /// The client has greeted.
    Greeting(ClientGreeting),
    /// The client does not speak TLS, and the bytes look like a request of HTTP.
    PlainHttp,
    /// The bytes are no TLS, or no version or suite fits.
    Failed(TlsFailure),
}

/// Reads the first message of a client.
#[derive(Default)]
pub struct HelloReader {
    acceptor: Acceptor,
    received: Vec<u8>,
}

impl HelloReader {
    /// Takes received bytes.
    pub fn receive(&mut self, mut bytes: &[u8]) -> FirstBytes {
        if let (true, Some(&first)) = (self.received.is_empty(), bytes.first())
            && first != HANDSHAKE
        {
            return match first.is_ascii_alphabetic() {
                true => FirstBytes::PlainHttp,
                false => FirstBytes::Failed(TlsFailure::silent("the first bytes are not TLS")),
            };
        }
        self.received.extend_from_slice(bytes);
        while !bytes.is_empty() {
            if let Err(error) = self.acceptor.read_tls(&mut bytes) {
                return FirstBytes::Failed(TlsFailure::silent(error.to_string()));
            }
            match self.acceptor.accept() {
                Ok(None) => {}
                // The client sends nothing else before the answer, except early data. The server
                // does not offer that, and the session skips it (RFC 8446, section 4.2.10).
                Ok(Some(accepted)) => {
                    let received = std::mem::take(&mut self.received);
                    let (accepted, unread) = (Box::new(accepted), bytes.to_vec());
                    return FirstBytes::Greeting(ClientGreeting { accepted, received, unread });
                }
                Err((Error::PeerIncompatible(PeerIncompatible::SignatureAlgorithmsExtensionRequired), _)) => {
                    let why = "the client speaks TLS 1.1 or older";
                    return FirstBytes::Failed(TlsFailure::new(why, PROTOCOL_VERSION.to_vec()));
                }
                Err((error, mut alert)) => {
                    let mut bytes = Vec::new();
                    // Writing to memory does not fail.
                    let _ = alert.write_all(&mut bytes);
                    return FirstBytes::Failed(TlsFailure::new(error.to_string(), bytes));
                }
            }
        }
        FirstBytes::More
    }
}

/// A client that has greeted and waits for the answer.
pub struct ClientGreeting {
    accepted: Box<Accepted>,
    /// All received bytes.
    received: Vec<u8>,
    /// The received bytes behind those that the message was read from.
    unread: Vec<u8>,
}

impl std::fmt::Debug for ClientGreeting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientGreeting").finish_non_exhaustive()
    }
}

impl ClientGreeting {
    /// The name of the host that the client asks for (SNI), in lower case.
    pub fn server_name(&self) -> Option<String> {
        self.accepted.client_hello().server_name().map(str::to_ascii_lowercase)
    }

    /// Answers the client as a host with this configuration. The answer waits in the session for
    /// [`TlsSession::take_output`].
    ///
    /// # Errors
    /// Nothing that client and server support fits, or the client violates the protocol.
    pub fn answer(self, config: &HostTlsConfig) -> Result<TlsFlight, TlsFailure> {
        if self.is_fallback() {
            let why = "the client speaks an older version than it can";
            return Err(TlsFailure::new(why, INAPPROPRIATE_FALLBACK.to_vec()));
        }
        let config = self.suited(&config.0);
        match self.accepted.into_connection(config) {
            Ok(connection) => TlsSession::new(connection).go_on(&self.unread),
            Err((error, mut alert)) => {
                let mut bytes = Vec::new();
                // Writing to memory does not fail.
                let _ = alert.write_all(&mut bytes);
                Err(TlsFailure::new(error.to_string(), bytes))
            }
        }
    }

    /// Whether the client hides newer versions, because an attacker broke its first attempt
    /// (TLS_FALLBACK_SCSV). A client of TLS 1.3 has suites of that version.
    fn is_fallback(&self) -> bool {
        let hello = self.accepted.client_hello();
        let mut suites = hello.cipher_suites().iter().map(|&suite| u16::from(suite));
        suites.clone().any(|suite| suite == FALLBACK_SCSV) && !suites.any(|suite| suite >> 8 == 0x13)
    }

    /// The server's order of suites counts, except for a client that prefers ChaCha20, because such
    /// a client has no instructions for AES.
    fn suited(&self, config: &Arc<ServerConfig>) -> Arc<ServerConfig> {
        let hello = self.accepted.client_hello();
        // The values without a meaning that clients send (RFC 8701).
        let is_grease = |suite: CipherSuite| u16::from(suite) & 0x0f0f == 0x0a0a;
        match hello.cipher_suites().iter().find(|suite| !is_grease(**suite)) {
            Some(&first) if is_chacha20(first) => {
                let mut config = ServerConfig::clone(config);
                config.ignore_client_order = false;
                Arc::new(config)
            }
            _ => config.clone(),
        }
    }

    /// The received bytes, from which [`HelloReader`] makes the same greeting.
    pub fn received(&self) -> &[u8] {
        &self.received
    }

    /// Refuses the client, because no host has the name.
    pub fn refuse_name(self) -> TlsFailure {
        TlsFailure::new("no host with a certificate has this name", UNRECOGNIZED_NAME.to_vec())
    }
}
