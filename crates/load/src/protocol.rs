//! The protocol of the connections.

use serde::{Deserialize, Serialize};

/// The protocol of the connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2: negotiated in the handshake over TLS (ALPN), with prior knowledge over plain TCP.
    Http2,
}

impl Protocol {
    /// The protocol's name in ALPN (RFC 7301 §6, RFC 9113 §3.2).
    pub(crate) fn alpn(self) -> &'static [u8] {
        match self {
            Self::Http1 => b"http/1.1",
            Self::Http2 => b"h2",
        }
    }
}
