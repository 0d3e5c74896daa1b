//! The options of `vermeil serve` about HTTPS, and their conversion.

use crate::usage::UsageError;
use crate::values::Listen;
use clap::{ArgAction, Args, ValueHint};
use std::path::PathBuf;
use vermeil_address::ListenAddr;
use vermeil_config::Surroundings;
use vermeil_settings::tls::{CertificatePair, HostTls, TlsOptions};

/// HTTPS.
#[derive(Clone, Debug, Args)]
pub(super) struct TlsArgs {
    /// Serve HTTPS with this certificate; may be given several times
    ///
    /// A PEM file that begins with the certificate of the host, followed by the certificates of its
    /// issuers (fullchain.pem of certbot and acme.sh). The server loads a changed file within two
    /// seconds. Of several certificates, a client gets the first that the client supports. Default:
    /// no HTTPS.
    #[arg(long, value_name = "FILE", action = ArgAction::Append, value_hint = ValueHint::FilePath)]
    tls_certificate: Vec<PathBuf>,

    /// The private key of the certificate, once for each certificate
    ///
    /// A PEM file that not every user of the machine may read. Default: the file of the
    /// certificate.
    #[arg(long, value_name = "FILE", action = ArgAction::Append, requires = "tls_certificate")]
    #[arg(value_hint = ValueHint::FilePath)]
    tls_key: Vec<PathBuf>,

    /// Where to listen for HTTPS, written as for --listen; may be given several times
    ///
    /// Default: 127.0.0.1:8443 if there is a certificate.
    #[arg(long, value_name = "ADDR", action = ArgAction::Append, requires = "tls_certificate")]
    listen_tls: Vec<Listen>,
}

/// The default of `--listen-tls`.
const LISTEN: &str = "127.0.0.1:8443";

impl TlsArgs {
    /// The certificates, if there are any.
    pub(super) fn host(&self) -> Result<Option<HostTls>, UsageError> {
        if self.tls_certificate.is_empty() {
            return Ok(None);
        }
        let keys = match self.tls_key.len() {
            0 => &self.tls_certificate,
            count if count == self.tls_certificate.len() => &self.tls_key,
            keys => return Err(UsageError::TlsKeys { certificates: self.tls_certificate.len(), keys }),
        };
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let pair = |(certificate, key)| CertificatePair {
            certificate: absolute(certificate),
            key: absolute(key),
            staple: None,
        };
        let certificates = self.tls_certificate.iter().zip(keys).map(pair).collect();
        Ok(Some(HostTls { certificates, client_issuers: None, requires_client: false }))
    }

    /// HTTPS, and its addresses behind the others in `listen`.
    pub(super) fn options(
        &self,
        around: &Surroundings,
        listen: &mut Vec<ListenAddr>,
    ) -> Result<TlsOptions, UsageError> {
        let before = listen.len();
        let default = LISTEN.parse().expect("an address");
        let asked = match &self.listen_tls[..] {
            _ if self.tls_certificate.is_empty() => &[],
            [] => std::slice::from_ref(&default),
            asked => asked,
        };
        for asked in asked {
            let count = listen.len();
            let resolved = around.resolve(asked, listen);
            resolved.map_err(|source| UsageError::TlsAddress { listen: asked.clone(), source })?;
            if listen.len() == count {
                return Err(UsageError::TlsAddressTaken { listen: asked.clone() });
            }
        }
        Ok(TlsOptions { listen: listen[before..].to_vec(), ..TlsOptions::default() })
    }
}
