//! The keys of HTTPS: certificates of hosts, and whether listeners and hosts fit together.
//!
//! Leaves out reading the certificates, because very many hosts would make a start slow
//! (`tls/troubles.rs` does). Tested in `tests.rs`.

use super::{
    keys::TlsTable,
    read::{At, OneOrMore},
    resolve::{Problems, narrow},
};
use crate::{
    ListenAddr,
    settings::tls::{TlsOptions, TlsPolicy},
};
use std::{
    ops::Range,
    path::{Path, PathBuf},
};
use vermeil_tls::{CertificatePair, HostTls};

/// HTTPS, spoken at the listeners `listen`.
pub(super) fn options(table: &TlsTable, listen: Vec<ListenAddr>) -> TlsOptions {
    TlsOptions {
        listen,
        policy: TlsPolicy { minimum: table.minimum, hosts_max: narrow(table.hosts_max) },
        handshakes_max: narrow(table.handshakes_max),
    }
}

/// The certificates of a host, if the host has any.
pub(super) fn host_tls(
    certificates: Option<&At<OneOrMore<PathBuf>>>,
    keys: Option<&At<OneOrMore<PathBuf>>>,
    folder: &Path,
    problems: &mut Problems,
) -> Option<HostTls> {
    let Some(At { value: OneOrMore(certificates), at }) = certificates else {
        if let Some(At { at, .. }) = keys {
            let what = "a private key is of no use without a certificate; write certificate = \"FILE\" too";
            problems.push(at, "host.key", what);
        }
        return None;
    };
    if certificates.is_empty() {
        problems.push(at, "host.certificate", "no file is named; name one, or leave the key out");
        return None;
    }
    let keys = match keys {
        None => certificates,
        Some(At { value: OneOrMore(keys), .. }) if keys.len() == certificates.len() => keys,
        Some(At { value: OneOrMore(keys), at }) => {
            let what = format!(
                "there are {} certificates and {} keys; write a key for each certificate, in the same order",
                certificates.len(),
                keys.len()
            );
            problems.push(at, "host.key", what);
            return None;
        }
    };
    let pair = |(certificate, key): (&PathBuf, &PathBuf)| CertificatePair {
        certificate: folder.join(certificate),
        key: folder.join(key),
        staple: None,
    };
    let certificates = certificates.iter().zip(keys).map(pair).collect();
    Some(HostTls { certificates, client_issuers: None, requires_client: false })
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
