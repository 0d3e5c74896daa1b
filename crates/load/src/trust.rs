//! Whom to believe over TLS, and what is asked of a server before a run.
//!
//! Certificates are judged by the system's roots, by given ones, or not at all. A handshake is made once before the run, so
//! that a certificate nobody believes is said with its reason instead of being counted a million times. Sessions are
//! never resumed: every connection pays for its handshake, as those of other injectors do. Tested in `tests/nginx`.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme, StreamOwned,
};
use serde::{Deserialize, Serialize};

use crate::error::LoadError;
use crate::plan::Protocol;
use crate::url::{Scheme, Url};

/// Whose certificates are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trust {
    /// Those that the system's roots vouch for.
    #[default]
    System,
    /// Those that these certificates (DER) vouch for.
    Roots(Vec<Vec<u8>>),
    /// Everybody's.
    Anyone,
}

impl Trust {
    /// The certificates of a PEM file.
    ///
    /// # Errors
    /// There is none in it, or something that is none.
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

/// What a TLS connection to a server begins with.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

impl Tls {
    /// For the server of `url`, spoken to by `protocol`; nothing over plain TCP.
    pub(crate) fn new(url: &Url, trust: &Trust, protocol: Protocol) -> Result<Option<Self>, LoadError> {
        if url.scheme == Scheme::Http {
            return Ok(None);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone());
        let builder = builder
            .with_safe_default_protocol_versions()
            .map_err(|error| LoadError::Tls(error.to_string()))?;
        let builder = match trust {
            Trust::Anyone => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider))),
            trust => builder.with_root_certificates(trust.roots()?),
        };
        let mut config = builder.with_no_client_auth();
        config.resumption = rustls::client::Resumption::disabled();
        config.alpn_protocols = vec![protocol.alpn().to_vec()];
        let name = ServerName::try_from(url.host.clone());
        let name =
            name.map_err(|_| LoadError::Tls(format!("{}: no name that a certificate can have", url.host)))?;
        Ok(Some(Self { config: Arc::new(config), name }))
    }

    pub(crate) fn connection(&self) -> Result<ClientConnection, rustls::Error> {
        ClientConnection::new(self.config.clone(), self.name.clone())
    }

    /// Makes one handshake with the server at `addr`, to find what would fail every time. That nobody answers is the run's
    /// to count.
    pub(crate) fn try_handshake(&self, addr: SocketAddr, protocol: Protocol) -> Result<(), LoadError> {
        let Ok(mut stream) = self.blocking(addr) else { return Ok(()) };
        while stream.conn.is_handshaking() {
            match stream.conn.complete_io(&mut stream.sock) {
                Ok(_) => {}
                Err(error) if is_of_tls(&error) => return Err(LoadError::Tls(why(&error, &self.name, addr))),
                Err(_) => return Ok(()),
            }
        }
        let spoken = stream.conn.alpn_protocol();
        if protocol == Protocol::Http2 && spoken != Some(protocol.alpn()) {
            return Err(LoadError::Tls(
                "the server does not speak HTTP/2 (ALPN): leave out --http2".to_owned(),
            ));
        }
        Ok(())
    }

    /// A connection for use before a run.
    pub(crate) fn blocking(&self, addr: SocketAddr) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let connection = self.connection().map_err(io::Error::other)?;
        Ok(StreamOwned::new(connection, plain(addr)?))
    }
}

/// Longest wait before a run. A server that needs longer for a handshake or a small file is not ready to be loaded.
const TIMEOUT: Duration = Duration::from_secs(10);

fn plain(addr: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&addr, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// A connection of the kind that `tls` says, for use before a run.
pub(crate) fn before_run(addr: SocketAddr, tls: Option<&Tls>) -> io::Result<Box<dyn Talk>> {
    Ok(match tls {
        None => Box::new(plain(addr)?),
        Some(tls) => Box::new(tls.blocking(addr)?),
    })
}

/// What can be read and written.
pub(crate) trait Talk: Read + Write {}

impl<T: Read + Write> Talk for T {}

/// Whether TLS itself found a fault.
pub(crate) fn is_of_tls(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>())
}

fn why(error: &io::Error, name: &ServerName<'_>, addr: SocketAddr) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let cure = match inner {
        Some(rustls::Error::InvalidCertificate(_)) => {
            "; give the certificate that vouches for it with --ca, or --insecure"
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            "; what answers there speaks no TLS: is it http://, or another port?"
        }
        _ => "",
    };
    format!("{} at {addr}: the TLS handshake failed: {error}{cure}", name.to_str())
}

/// Believes every certificate, and checks only that the server has its key.
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

    /// Whoever wrote https for http was told of a corrupt message.
    #[test]
    fn a_server_without_tls_is_said() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _hello = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").unwrap();
            // Until the client has read it: closing with something unread would reset.
            while stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
        });
        let tls = Tls::new(&"https://a/".parse().unwrap(), &Trust::Anyone, Protocol::Http1).unwrap().unwrap();
        let said = tls.try_handshake(addr, Protocol::Http1).unwrap_err().to_string();
        assert!(said.contains(&addr.to_string()) && said.contains("http://"), "{said}");
        server.join().unwrap();
    }

    #[test]
    fn what_is_no_certificate_says_so() {
        assert!(Trust::from_pem(b"nothing").unwrap_err().contains("no certificate"));
        let broken = b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
        assert!(Trust::from_pem(broken).unwrap_err().contains("no PEM file"));
        let url: Url = "https://a/".parse().unwrap();
        let said =
            Tls::new(&url, &Trust::Roots(vec![vec![1, 2, 3]]), Protocol::Http1).unwrap_err().to_string();
        assert!(said.contains("--ca"), "{said}");
    }
}
