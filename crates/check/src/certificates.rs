//! Certificates that could not be used, found before the start and before a reload.
//!
//! Reading a certificate takes some 50 µs, so a start and a reload read those of the first hosts
//! only, and `vermeil check` reads all. The others show at their first use.

use std::sync::Arc;
use vermeil_config::PlacedKey;
use vermeil_routing::hosts::{HostId, Hosts};
use vermeil_tls::{CertificateError, HostTls};

/// Hosts whose certificates are read at the start and at a reload. Reading a certificate takes
/// about 100 µs, so this takes a tenth of a second.
const AT_START: usize = 1000;

/// The key of a file of HTTPS that cannot be used, and the reason.
pub(crate) type UnusableCertificate = (PlacedKey, String);

/// The reasons why certificates of the first hosts cannot be used, a line each.
pub fn troubles_of_first(
    hosts: &Hosts,
    check: impl Fn(&HostTls) -> Result<(), CertificateError>,
) -> Vec<String> {
    of_first(hosts, check).into_iter().map(|(_, why)| why).collect()
}

/// The same, with the keys.
pub(crate) fn of_first(
    hosts: &Hosts,
    check: impl Fn(&HostTls) -> Result<(), CertificateError>,
) -> Vec<UnusableCertificate> {
    troubles(hosts.all_certificates().take(AT_START), check)
}

/// The same for the other hosts.
pub(crate) fn of_others(
    hosts: &Hosts,
    check: impl Fn(&HostTls) -> Result<(), CertificateError>,
) -> Vec<UnusableCertificate> {
    troubles(hosts.all_certificates().skip(AT_START), check)
}

fn troubles<'h>(
    hosts: impl Iterator<Item = (HostId, &'h Arc<HostTls>)>,
    check: impl Fn(&HostTls) -> Result<(), CertificateError>,
) -> Vec<UnusableCertificate> {
    let said = |(id, host): (HostId, &Arc<HostTls>)| {
        let error = check(host).err()?;
        Some((key_of(id, host, &error), format!("cannot serve HTTPS: {error}")))
    };
    hosts.filter_map(said).collect()
}

/// The key that names the file with the fault.
fn key_of(id: HostId, host: &HostTls, error: &CertificateError) -> PlacedKey {
    let path = error.path();
    let mut pairs = host.certificates.iter();
    if host.client_issuers.as_deref() == Some(path) {
        PlacedKey::ClientIssuers(id)
    } else if pairs.clone().any(|pair| pair.certificate == path) {
        // A certificate without a key of its own has the key in the same file.
        PlacedKey::Certificate(id)
    } else if pairs.any(|pair| pair.key == path) {
        PlacedKey::CertificateKey(id)
    } else {
        PlacedKey::Staple(id)
    }
}
