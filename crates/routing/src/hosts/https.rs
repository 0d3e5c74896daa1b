//! Addresses of hosts that require HTTPS.
//!
//! Leaves out the redirect itself (`crates/answer`). Tested through the binary
//! (`crates/e2e/tests/e2e/tls.rs`, `explain.rs`).

use super::{HostId, Hosts, without_port};
use vermeil_http::{Request, path};
use vermeil_settings::tls::HttpsUse;

/// Where issuers of certificates look over HTTP (RFC 8555, section 8.3).
const CHALLENGES: &[u8] = b"/.well-known/acme-challenge/";

impl Hosts {
    /// Whether a request over HTTP for `path`, as received, is redirected to HTTPS.
    pub fn redirects_to_https(&self, host: HostId, path: &[u8]) -> bool {
        self.host(host).rules.https != HttpsUse::Optional && !is_of_issuer(path)
    }

    /// The address of the same request over HTTPS. `None` if the request names no host, and the
    /// host has no name.
    pub fn https_address(&self, host: HostId, request: &Request<'_>) -> Option<Vec<u8>> {
        let name = request.host.or(self.host(host).name)?;
        let mut address = b"https://".to_vec();
        address.extend_from_slice(without_port(name));
        if let Some(port) = self.https_port(host) {
            address.extend_from_slice(format!(":{port}").as_bytes());
        }
        address.extend_from_slice(&path::escaped(request.target.path));
        if let Some(query) = request.target.query {
            address.push(b'?');
            address.extend_from_slice(&path::escaped(query));
        }
        Some(address)
    }
}

/// Whether the decoded path is one where issuers look. A path with dot segments may begin like that
/// and lead elsewhere.
fn is_of_issuer(path: &[u8]) -> bool {
    let is_below = |path: &[u8]| path.starts_with(CHALLENGES);
    let mut decoded = Vec::new();
    is_below(path) && path::decode_for_program(path, &mut decoded).is_ok_and(|path| is_below(path.bytes))
}
