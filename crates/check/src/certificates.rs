//! Certificates that could not be used, found before the start and before a reload.
//!
//! Reading a certificate takes some 50 µs, so a start and a reload read those of the first hosts
//! only, and `vermeil check` reads all. The others show at their first use.

use std::sync::Arc;
use vermeil_routing::hosts::Hosts;
use vermeil_tls::{CertificateError, HostTls};

/// Hosts whose certificates are read at the start and at a reload. Reading a certificate takes
/// about 100 µs, so this takes a tenth of a second.
const AT_START: usize = 1000;

/// The reasons why certificates of the first hosts cannot be used, a line each.
pub fn of_first(hosts: &Hosts, check: impl Fn(&HostTls) -> Result<(), CertificateError>) -> Vec<String> {
    troubles(hosts.all_certificates().take(AT_START), check)
}

/// The same for the other hosts.
pub(crate) fn of_others(
    hosts: &Hosts,
    check: impl Fn(&HostTls) -> Result<(), CertificateError>,
) -> Vec<String> {
    troubles(hosts.all_certificates().skip(AT_START), check)
}

fn troubles<'h>(
    hosts: impl Iterator<Item = &'h Arc<HostTls>>,
    check: impl Fn(&HostTls) -> Result<(), CertificateError>,
) -> Vec<String> {
    let said = |host: &Arc<HostTls>| check(host).err().map(|error| format!("cannot serve HTTPS: {error}"));
    hosts.filter_map(said).collect()
}
