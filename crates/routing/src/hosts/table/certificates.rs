//! The certificates of hosts.
//!
//! Leaves out the certificates themselves (`crates/tls`). Tested through the binary
//! (`crates/e2e/tests/e2e/tls.rs`).

use super::{HostId, Hosts};
use std::sync::Arc;
use vermeil_address::ListenAddr;
use vermeil_settings::tls::HTTPS_PORT;
use vermeil_tls::HostTls;

impl Hosts {
    /// The certificates for a client that asks for `name` (SNI) at the listener `at`. A host
    /// without a certificate has the certificates of the default host.
    pub fn certificates(&self, name: Option<&[u8]>, at: Option<ListenAddr>) -> Option<&Arc<HostTls>> {
        self.certificates_of(self.find_at(name, at)?, at)
    }

    /// The certificates for clients of `host` at the listener `at`. A host without a certificate
    /// has those of the default host there, also where requests for unknown names are refused.
    pub fn certificates_of(&self, host: HostId, at: Option<ListenAddr>) -> Option<&Arc<HostTls>> {
        let of_host = |host: HostId| self.secure.certificates.get(&host);
        of_host(host).or_else(|| of_host(self.nameless_at(at)?))
    }

    /// Whether a host asks clients for certificates.
    #[inline]
    pub fn ask_for_certificates(&self) -> bool {
        self.secure.ask_clients
    }

    /// Whether clients of `host` need a certificate.
    pub fn requires_certificate(&self, host: HostId) -> bool {
        self.secure.certificates.get(&host).is_some_and(|host| host.requires_client)
    }

    /// The hosts with certificates, in the order of adding, so that a start and a reload check the
    /// certificates of the same first hosts.
    pub fn all_certificates(&self) -> impl ExactSizeIterator<Item = (HostId, &Arc<HostTls>)> {
        let all = self.secure.certificates.iter().map(|(host, certificates)| (*host, certificates));
        let mut all: Vec<_> = all.collect();
        all.sort_unstable_by_key(|(host, _)| *host);
        all.into_iter()
    }

    /// The port of HTTPS in addresses of `host`; `None` for the port that goes without saying.
    pub fn https_port(&self, host: HostId) -> Option<u16> {
        let of_host = self.secure.listeners.iter().filter(|at| self.answers_at(host, Some(**at)));
        let mut ports = of_host.filter_map(ListenAddr::port);
        let first = ports.next()?;
        (first != HTTPS_PORT && ports.all(|port| port != HTTPS_PORT)).then_some(first)
    }
}
