//! The settings of TLS: the versions for all hosts, and the certificates of a host.
//!
//! Makes the configurations of rustls. Leaves out the certificates' files (`certificate.rs`).
//! Tested in `session.rs`.

use crate::{
    certificate::{CertificateError, CertificatePair, OpenedFile},
    provider::provider,
    tickets::Tickets,
};
use rustls::{
    ServerConfig, SupportedProtocolVersion,
    crypto::CryptoProvider,
    server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};
use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::PathBuf,
    sync::Arc,
};

/// The oldest version of TLS that a client may speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinimumVersion {
    /// TLS 1.2, which clients have spoken since about 2013.
    #[default]
    Tls12,
    /// TLS 1.3, which clients have spoken since about 2018.
    Tls13,
}

impl MinimumVersion {
    fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        static NEWEST: [&SupportedProtocolVersion; 1] = [&TLS13];
        static BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
        match self {
            Self::Tls12 => &BOTH,
            Self::Tls13 => &NEWEST,
        }
    }
}

/// The settings for all hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsPolicy {
    /// The oldest version.
    pub minimum: MinimumVersion,
    /// The most hosts whose certificates are in memory. A host takes some 6 KB.
    pub hosts_max: usize,
}

impl TlsPolicy {
    /// The default of [`hosts_max`](Self::hosts_max): 60 MB of certificates.
    pub const HOSTS_MAX: usize = 10_000;
}

impl Default for TlsPolicy {
    fn default() -> Self {
        Self { minimum: MinimumVersion::default(), hosts_max: Self::HOSTS_MAX }
    }
}

/// The certificates of a host, and the certificates that its clients need.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostTls {
    /// The host's own certificates, at least one. A client gets the first that the client supports.
    pub certificates: Vec<CertificatePair>,
    /// The issuers of client certificates (PEM), if the server asks clients for certificates.
    pub client_issuers: Option<PathBuf>,
    /// Whether a client without a certificate is refused.
    pub requires_client: bool,
}

/// The demands of a host on the certificates of its clients, as a number: equal for the same
/// issuers and the same need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientTrust(u64);

impl HostTls {
    /// The demands on the certificates of clients. `None` if the host asks for none.
    pub fn client_trust(&self) -> Option<ClientTrust> {
        let issuers = self.client_issuers.as_ref()?;
        let mut hasher = DefaultHasher::new();
        (issuers, self.requires_client).hash(&mut hasher);
        Some(ClientTrust(hasher.finish()))
    }

    /// All files of the host.
    pub fn files(&self) -> impl Iterator<Item = &std::path::Path> {
        let pairs = self.certificates.iter().flat_map(CertificatePair::files);
        pairs.chain(self.client_issuers.as_deref())
    }
}

/// The protocols that the server speaks over TLS, in the order of preference.
const PROTOCOLS: [&[u8]; 1] = [b"http/1.1"];

/// The means to make configurations.
pub(crate) struct ConfigMaker {
    pub(crate) provider: Arc<CryptoProvider>,
    minimum: MinimumVersion,
    tickets: Arc<Tickets>,
}

impl ConfigMaker {
    pub(crate) fn new(minimum: MinimumVersion, tickets: Arc<Tickets>) -> Self {
        Self { provider: provider(), minimum, tickets }
    }

    /// The configuration for a host with these certificates.
    pub(crate) fn config(
        &self,
        keys: Vec<Arc<CertifiedKey>>,
        host: &HostTls,
        issuers: Option<&OpenedFile>,
    ) -> Result<ServerConfig, CertificateError> {
        let builder = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(self.minimum.versions())
            .expect("the provider has suites for both versions");
        let builder = match issuers {
            None => builder.with_no_client_auth(),
            Some(issuers) => {
                let roots = Arc::new(issuers.roots()?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, self.provider.clone());
                let verifier = match host.requires_client {
                    true => verifier,
                    false => verifier.allow_unauthenticated(),
                };
                builder.with_client_cert_verifier(
                    verifier.build().map_err(|error| issuers.unfit(error.to_string()))?,
                )
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(FirstSupported(keys)));
        config.alpn_protocols = PROTOCOLS.iter().map(|name| name.to_vec()).collect();
        // A ticket carries the certificate of the client, and nothing checks that certificate
        // again. So with client certificates there is no ticket, because a session of an earlier
        // configuration or of another host would pass for a verified one.
        if issuers.is_none() {
            config.ticketer = self.tickets.clone();
        }
        // See `ClientGreeting::suited`.
        config.ignore_client_order = true;
        // Tickets carry the state, so that no core needs memory of past sessions.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(config)
    }
}

/// Chooses the first certificate whose key can sign as the client understands.
///
/// Without such a certificate, the first certificate leads to the alert `handshake_failure`. No
/// certificate would lead to `access_denied`, which scanners take for a demand of a certificate of
/// the client.
#[derive(Debug)]
struct FirstSupported(Vec<Arc<CertifiedKey>>);

impl ResolvesServerCert for FirstSupported {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let signs =
            |certified: &&Arc<CertifiedKey>| certified.key.choose_scheme(hello.signature_schemes()).is_some();
        self.0.iter().find(signs).or(self.0.first()).cloned()
    }
}
