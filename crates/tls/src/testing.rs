//! Certificates for tests.

use crate::{CertificatePair, HostTls};
use rcgen::{CertificateParams, KeyPair};
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};
use tempfile::TempDir;

/// A self-signed certificate in a folder.
pub(crate) struct MadeCertificate {
    folder: TempDir,
    pub(crate) der: Vec<u8>,
}

impl MadeCertificate {
    /// A certificate with a P-256 key.
    pub(crate) fn new(names: &[&str]) -> Self {
        Self::with_key(names, &KeyPair::generate().expect("a key"))
    }

    pub(crate) fn with_key(names: &[&str], key: &KeyPair) -> Self {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Self::of(&CertificateParams::new(names).expect("names"), key)
    }

    /// A certificate that is valid from the begin of a year to the begin of another.
    pub(crate) fn of_years(from: i32, to: i32) -> Self {
        let mut params = CertificateParams::new(["a.example".to_owned()]).expect("a name");
        params.not_before = rcgen::date_time_ymd(from, 1, 1);
        params.not_after = rcgen::date_time_ymd(to, 1, 1);
        Self::of(&params, &KeyPair::generate().expect("a key"))
    }

    fn of(params: &CertificateParams, key: &KeyPair) -> Self {
        let certificate = params.self_signed(key).expect("signed");
        let folder = tempfile::tempdir().expect("a folder");
        write(&folder.path().join("cert.pem"), &certificate.pem());
        write(&folder.path().join("key.pem"), &key.serialize_pem());
        Self { folder, der: certificate.der().to_vec() }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn pair(&self) -> CertificatePair {
        let file = |name: &str| self.folder().join(name);
        CertificatePair { certificate: file("cert.pem"), key: file("key.pem"), staple: None }
    }

    pub(crate) fn host(&self) -> Arc<HostTls> {
        Arc::new(host(vec![self.pair()]))
    }

    /// A host with copies of the files.
    pub(crate) fn host_with_copies(&self, number: usize) -> Arc<HostTls> {
        let copy = |path: PathBuf| {
            let to = path.with_extension(format!("{number}.pem"));
            fs::copy(path, &to).expect("copied");
            to
        };
        let CertificatePair { certificate, key, staple } = self.pair();
        Arc::new(host(vec![CertificatePair { certificate: copy(certificate), key: copy(key), staple }]))
    }
}

pub(crate) fn host(certificates: Vec<CertificatePair>) -> HostTls {
    HostTls { certificates, client_issuers: None, requires_client: false }
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("changed");
}
