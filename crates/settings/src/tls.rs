//! The settings of HTTPS: which listeners speak TLS, the bounds, and which hosts require HTTPS.

use vermeil_address::ListenAddr;
pub use vermeil_tls::{CertificatePair, HostTls, MinimumVersion, TlsPolicy};

/// Default number of handshakes of an instance that wait for a core. Default 1,000: half a second
/// of a core, after which a client's attempt has lost its use.
pub const HANDSHAKES_MAX: usize = 1000;

/// The port of HTTPS that addresses leave out.
pub const HTTPS_PORT: u16 = 443;

/// HTTPS of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// The listeners whose clients speak TLS, by their addresses as configured.
    pub listen: Vec<ListenAddr>,
    /// The versions, and the bound of certificates in memory.
    pub policy: TlsPolicy,
    /// The most handshakes of an instance that wait for a core.
    pub handshakes_max: usize,
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self { listen: Vec::new(), policy: TlsPolicy::default(), handshakes_max: HANDSHAKES_MAX }
    }
}

/// Whether clients of a host with issuers of client certificates need a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientNeed {
    /// A client without a certificate is refused.
    #[default]
    Required,
    /// Programs see whether there is a certificate.
    Optional,
}

/// Whether requests of a host must use HTTPS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HttpsUse {
    /// HTTP and HTTPS serve the same.
    #[default]
    Optional,
    /// A request over HTTP is redirected.
    Redirect,
    /// Also, browsers are told to use HTTPS alone.
    Only,
}
