//! The trusted certificates over TLS.
//!
//! The system's roots or given roots verify certificates, or no verification takes place. Unless
//! the plan asks for resumed sessions, every connection pays for the handshake, as with other
//! injectors. Leaves out the check of a server before a run (`preflight`). Tested here and in
//! `tests/nginx`.

use std::io;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};
use serde::{Deserialize, Serialize};

use crate::error::LoadError;
use crate::protocol::Protocol;
use crate::tls_sessions::RunSessions;
use crate::url::{Scheme, Url};

/// The trusted certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TlsVerify {
    /// Certificates that the system's roots have signed.
    #[default]
    System,
    /// Certificates that these roots (DER) have signed.
    Roots(Vec<Vec<u8>>),
    /// All certificates.
    Anyone,
}

impl TlsVerify {
    /// The certificates of a PEM file.
    ///
    /// # Errors
    /// The text has no certificate, or an invalid certificate.
    pub fn from_pem(text: &[u8]) -> Result<Self, String> {
        let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
        let roots = roots.map_err(|error| format!("it is no PEM file: {error}"))?;
        if roots.is_empty() {
            return Err("there is no certificate in it: write a PEM file".to_owned());
        }
        Ok(Self::Roots(roots.into_iter().map(|root| root.to_vec()).collect()))
    }

    fn roots(&self) -> Result<RootCertStore, LoadError> {
        let mut store = RootCertStore::empty();
        match self {
            Self::System => {
                store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if store.is_empty() {
                    return Err(LoadError::Tls(
                        "this system has no root certificates: give some with --ca".into(),
                    ));
                }
            }
            Self::Roots(roots) => {
                for root in roots {
                    let added = store.add(CertificateDer::from(root.clone()));
                    added
                        .map_err(|error| LoadError::Tls(format!("a certificate of --ca is none: {error}")))?;
                }
            }
            Self::Anyone => {}
        }
        Ok(store)
    }
}

/// The handshakes of the connections to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TlsSessions {
    /// Every connection makes a full handshake.
    #[default]
    Full,
    /// A connection resumes the session of an earlier connection, if the server allows that.
    Resumed,
}

/// The parameters of a TLS connection to a server.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

impl Tls {
    /// The parameters for the server of `url` and for `protocol`; `None` over plain TCP.
    pub(crate) fn new(
        url: &Url,
        trust: &TlsVerify,
        sessions: TlsSessions,
        protocol: Protocol,
    ) -> Result<Option<Self>, LoadError> {
        if url.scheme == Scheme::Http {
            return Ok(None);
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone());
        let builder = builder
            .with_safe_default_protocol_versions()
            .map_err(|error| LoadError::Tls(error.to_string()))?;
        let builder = match trust {
            TlsVerify::Anyone => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider)))
            }
            trust => builder.with_root_certificates(trust.roots()?),
        };
        let mut config = builder.with_no_client_auth();
        config.resumption = match sessions {
            TlsSessions::Full => Resumption::disabled(),
            TlsSessions::Resumed => Resumption::store(Arc::new(RunSessions::new())),
        };
        config.alpn_protocols = vec![protocol.alpn().to_vec()];
        let name = ServerName::try_from(url.host.clone());
        let name =
            name.map_err(|_| LoadError::Tls(format!("{}: no name that a certificate can have", url.host)))?;
        Ok(Some(Self { config: Arc::new(config), name }))
    }

    pub(crate) fn connection(&self) -> Result<ClientConnection, rustls::Error> {
        ClientConnection::new(self.config.clone(), self.name.clone())
    }
}

/// Whether the error comes from TLS.
pub(crate) fn is_of_tls(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>())
}

/// Accepts every certificate, and checks only that the server has the private key.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_certificate_is_refused_with_reason() {
        assert!(TlsVerify::from_pem(b"nothing").unwrap_err().contains("no certificate"));
        let broken = b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
        assert!(TlsVerify::from_pem(broken).unwrap_err().contains("no PEM file"));
        let url: Url = "https://a/".parse().unwrap();
        let said = Tls::new(&url, &TlsVerify::Roots(vec![vec![1, 2, 3]]), TlsSessions::Full, Protocol::Http1)
            .unwrap_err()
            .to_string();
        assert!(said.contains("--ca"), "{said}");
    }
}
