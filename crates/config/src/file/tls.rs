//! The keys of HTTPS: certificates of hosts, and whether listeners and hosts fit together.
//!
//! Leaves out reading the certificates, because very many hosts would make a start slow
//! (`crates/check/src/certificates.rs` does). Tested in `tests.rs`.

use super::{
    keys::{HostTable, TlsTable},
    problems::Problems,
    read::{At, OneOrMore, narrow},
};
use std::{
    ops::Range,
    path::{Path, PathBuf},
};
use vermeil_address::ListenAddr;
use vermeil_settings::tls::{ClientNeed, HttpsUse, TlsOptions, TlsPolicy};
use vermeil_tls::{CertificatePair, HostTls};

/// HTTPS, spoken at the listeners `listen`.
pub(super) fn options(table: &TlsTable, listen: Vec<ListenAddr>) -> TlsOptions {
    TlsOptions {
        listen,
        policy: TlsPolicy { minimum: table.minimum, hosts_max: narrow(table.hosts_max) },
        handshakes_max: narrow(table.handshakes_max),
    }
}

/// The keys of a host about HTTPS.
pub(super) struct HostTlsKeys<'k> {
    pub(super) https: &'k At<HttpsUse>,
    pub(super) certificate: Option<&'k At<OneOrMore<PathBuf>>>,
    key: Option<&'k At<OneOrMore<PathBuf>>>,
    staple: Option<&'k At<OneOrMore<PathBuf>>>,
    client_issuers: Option<&'k At<PathBuf>>,
    client_certificate: Option<&'k At<ClientNeed>>,
}

impl<'k> HostTlsKeys<'k> {
    pub(super) fn of(host: &'k HostTable) -> Self {
        Self {
            https: &host.https,
            certificate: host.certificate.as_ref(),
            key: host.key.as_ref(),
            staple: host.staple.as_ref(),
            client_issuers: host.client_issuers.as_ref(),
            client_certificate: host.client_certificate.as_ref(),
        }
    }
}

/// The certificates of a host, if the host has any.
pub(super) fn host_tls(keys: &HostTlsKeys<'_>, folder: &Path, problems: &mut Problems) -> Option<HostTls> {
    if let (Some(need), None) = (keys.client_certificate, keys.client_issuers) {
        let what = "no issuers are named, so no client would be asked for a certificate; write \
                    client_issuers = \"FILE\" too";
        problems.push(&need.at, "host.client_certificate", what);
    }
    let Some(At { value: OneOrMore(certificates), at }) = keys.certificate else {
        let key = keys.key.map(|key| (&key.at, "host.key", "a private key"));
        let staple = keys.staple.map(|staple| (&staple.at, "host.staple", "a stapled answer"));
        let issuers = keys
            .client_issuers
            .map(|issuers| (&issuers.at, "host.client_issuers", "a file of issuers of client certificates"));
        for (at, name, thing) in [key, staple, issuers].into_iter().flatten() {
            let what =
                format!("{thing} is of no use without a certificate; write certificate = \"FILE\" too");
            problems.push(at, name, what);
        }
        return None;
    };
    if certificates.is_empty() {
        problems.push(at, "host.certificate", "no file is named; name one, or leave the key out");
        return None;
    }
    let count = certificates.len();
    let private = files_beside(count, keys.key, "host.key", "keys", problems)?;
    let staples = files_beside(count, keys.staple, "host.staple", "staples", problems)?;
    let pair = |(number, certificate): (usize, &PathBuf)| CertificatePair {
        certificate: folder.join(certificate),
        key: folder.join(private.map_or(certificate, |keys| &keys[number])),
        staple: staples.map(|staples| folder.join(&staples[number])),
    };
    let certificates = certificates.iter().enumerate().map(pair).collect();
    let client_issuers = keys.client_issuers.map(|issuers| folder.join(&issuers.value));
    let need = keys.client_certificate.map_or(ClientNeed::Required, |need| need.value);
    let requires_client = client_issuers.is_some() && need == ClientNeed::Required;
    Some(HostTls { certificates, client_issuers, requires_client })
}

/// The files that belong to `count` certificates, one each: `Some(None)` if none are named, and
/// `None` if their number differs.
fn files_beside<'k>(
    count: usize,
    files: Option<&'k At<OneOrMore<PathBuf>>>,
    name: &'static str,
    things: &str,
    problems: &mut Problems,
) -> Option<Option<&'k [PathBuf]>> {
    let Some(At { value: OneOrMore(files), at }) = files else { return Some(None) };
    if files.len() == count {
        return Some(Some(files));
    }
    let what = format!(
        "there are {count} certificates and {} {things}; write one for each certificate, in the same order",
        files.len()
    );
    problems.push(at, name, what);
    None
}

/// Refuses certificates without a listener, and a listener without certificates.
pub(super) fn refuse_one_half(
    certificate: Option<Range<usize>>,
    https: Option<Range<usize>>,
    secure: &[ListenAddr],
    end: usize,
    problems: &mut Problems,
) {
    let no_listener = "no listener speaks HTTPS; write [[listener]] with address = \":443\" and tls = true";
    match (certificate, secure) {
        (Some(at), []) => problems.push(&at, "host.certificate", no_listener),
        (None, [_, ..]) => {
            let what = "a listener has tls = true, but no host has a certificate; write certificate = \"FILE\" \
                        and key = \"FILE\" below [[host]]";
            problems.push(&(end..end), "host.certificate", what);
        }
        _ => {}
    }
    if let (Some(at), []) = (https, secure) {
        problems.push(&at, "host.https", no_listener);
    }
}
