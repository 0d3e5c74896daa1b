//! Certificates and private keys from PEM files, with every reason why a pair is refused.
//!
//! A pair is refused when a file cannot be read, when every user of the machine may read the key,
//! and when key and certificate do not fit. Leaves out the cache (`store.rs`). Tested below.

use rustls::{
    InconsistentKeys, RootCertStore,
    crypto::CryptoProvider,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    sign::CertifiedKey,
};
use std::{
    fs::{File, Metadata},
    io::{self, Read},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};
use x509_parser::asn1_rs::{Enumerated, FromDer as _, Sequence};

/// Largest file of certificates or of a key, in bytes. A chain takes some 5 KB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The files of a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CertificatePair {
    /// The certificate of the host, followed by the certificates of its issuers.
    pub certificate: PathBuf,
    /// The private key. May be the same file.
    pub key: PathBuf,
    /// The stapled answer of the issuer about revocation (OCSP, DER), if there is one.
    pub staple: Option<PathBuf>,
}

impl CertificatePair {
    /// All files of the pair.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        [&self.certificate, &self.key].into_iter().chain(&self.staple).map(PathBuf::as_path)
    }
}

/// A pair that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system, and the cure.
        why: String,
    },
    /// Other users may read the private key.
    #[error(
        "every user of this machine may read or write the private key {} (mode {mode:04o}); run chmod o= {}",
        path.display(),
        path.display()
    )]
    Exposed {
        /// The file of the key.
        path: PathBuf,
        /// The permission bits of the file.
        mode: u32,
    },
    /// The content of a file is of no use.
    #[error("{}: {why}", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// The reason and the cure.
        why: String,
    },
    /// A process writes the file at this moment.
    #[error("{} changed while it was read; write another file, and rename it over this one", path.display())]
    Changing {
        /// The file.
        path: PathBuf,
    },
    /// Other users may replace the issuers of the certificates of clients.
    #[error(
        "every user of this machine may write the issuers of client certificates {} (mode {mode:04o}); \
         run chmod o-w {}",
        path.display(),
        path.display()
    )]
    Writable {
        /// The file of the issuers.
        path: PathBuf,
        /// The permission bits of the file.
        mode: u32,
    },
    /// The key belongs to another certificate.
    #[error(
        "the private key {} does not belong to the first certificate in {}; name the two files of one certificate, \
         with the certificate of the host first",
        key.display(),
        certificate.display()
    )]
    Mismatch {
        /// The file of the certificates.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
}

impl CertificateError {
    /// The file with the fault.
    pub fn path(&self) -> &Path {
        match self {
            Self::Unreadable { path, .. }
            | Self::Exposed { path, .. }
            | Self::Unfit { path, .. }
            | Self::Changing { path }
            | Self::Writable { path, .. } => path,
            Self::Mismatch { certificate, .. } => certificate,
        }
    }
}

/// The means of opening files, because a server may have given up the right to read private keys.
pub trait FileSource: Send + Sync {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// The system's error.
    fn open(&self, path: &Path) -> io::Result<File>;
}

/// Opens files with the rights of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainFiles;

impl FileSource for PlainFiles {
    fn open(&self, path: &Path) -> io::Result<File> {
        // Opening a pipe would wait for its writer.
        if !path.metadata()?.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        File::open(path)
    }
}

/// The state of a file, which differs once the file has changed or another file has its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    dev: u64,
    ino: u64,
    size: u64,
    changed: (i64, i64),
    modified: (i64, i64),
}

impl FileStamp {
    fn of(about: &Metadata) -> Self {
        Self {
            dev: about.dev(),
            ino: about.ino(),
            size: about.len(),
            changed: (about.ctime(), about.ctime_nsec()),
            modified: (about.mtime(), about.mtime_nsec()),
        }
    }
}

/// An open file with its state.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    path: PathBuf,
    file: File,
    mode: u32,
    stamp: FileStamp,
}

impl OpenedFile {
    pub(crate) fn open(source: &dyn FileSource, path: &Path) -> Result<Self, CertificateError> {
        let unreadable = |error: io::Error| {
            let cure = match error.kind() {
                io::ErrorKind::PermissionDenied => "; let the user that starts the server read the file",
                io::ErrorKind::NotFound => "; name another file",
                _ => "",
            };
            CertificateError::Unreadable { path: path.to_owned(), why: format!("{error}{cure}") }
        };
        let file = source.open(path).map_err(unreadable)?;
        let about = file.metadata().map_err(unreadable)?;
        if !about.is_file() {
            return Err(unreadable(io::Error::other("it is no regular file")));
        }
        if about.len() > FILE_BYTES_MAX {
            return Err(unreadable(io::Error::other(format!("it has more than {FILE_BYTES_MAX} bytes"))));
        }
        let stamp = FileStamp::of(&about);
        Ok(Self { path: path.to_owned(), file, mode: about.mode(), stamp })
    }

    pub(crate) fn stamp(&self) -> FileStamp {
        self.stamp
    }

    /// Refuses a file that has changed since it was opened.
    pub(crate) fn refuse_changed(&self) -> Result<(), CertificateError> {
        match self.file.metadata() {
            Ok(about) if FileStamp::of(&about) == self.stamp => Ok(()),
            _ => Err(CertificateError::Changing { path: self.path.clone() }),
        }
    }

    fn read(&self) -> Result<Vec<u8>, CertificateError> {
        let mut bytes = Vec::new();
        match (&self.file).take(FILE_BYTES_MAX).read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(error) => {
                Err(CertificateError::Unreadable { path: self.path.clone(), why: error.to_string() })
            }
        }
    }

    pub(crate) fn unfit(&self, why: impl Into<String>) -> CertificateError {
        CertificateError::Unfit { path: self.path.clone(), why: why.into() }
    }

    /// Refuses a private key that other users may read or replace.
    fn refuse_exposed(&self) -> Result<(), CertificateError> {
        const OTHERS: u32 = 0o007;
        match self.mode & OTHERS {
            0 => Ok(()),
            _ => Err(CertificateError::Exposed { path: self.path.clone(), mode: self.mode & 0o7777 }),
        }
    }

    pub(crate) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
        let text = self.read()?;
        let chain: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&text).collect();
        let chain = chain.map_err(|error| self.unfit(format!("this is no PEM file: {error}")))?;
        if chain.is_empty() {
            return Err(self.unfit(
                "there is no certificate in it; name the PEM file that begins with the certificate of the host",
            ));
        }
        Ok(chain)
    }

    /// The issuers of the certificates of clients.
    pub(crate) fn roots(&self) -> Result<RootCertStore, CertificateError> {
        if self.mode & 0o002 != 0 {
            return Err(CertificateError::Writable { path: self.path.clone(), mode: self.mode & 0o7777 });
        }
        let mut roots = RootCertStore::empty();
        for issuer in self.certificates()? {
            roots.add(issuer).map_err(|error| self.unfit(format!("an issuer is malformed: {error}")))?;
        }
        Ok(roots)
    }

    fn private_key(&self) -> Result<PrivateKeyDer<'static>, CertificateError> {
        let text = self.read()?;
        let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
            let is_encrypted = text.windows(9).any(|word| word == b"ENCRYPTED");
            self.unfit(match error {
                pem::Error::NoItemsFound if is_encrypted => {
                    "the private key is encrypted; decrypt it with openssl pkey -in FILE -out FILE".to_owned()
                }
                pem::Error::NoItemsFound => {
                    "there is no private key in it; name the PEM file of the key, by key or --tls-key"
                        .to_owned()
                }
                error => format!("this is no PEM file: {error}"),
            })
        })?;
        // Only a file with a key must be private, so a certificate without a key is told as such.
        self.refuse_exposed()?;
        Ok(key)
    }
}

/// Whether a staple is whole and the issuer has answered: an `OCSPResponse` of the status
/// `successful` (RFC 6960, section 4.2.1). A client refuses a handshake with an empty staple.
fn is_answer(staple: &[u8]) -> bool {
    let Ok((rest, response)) = Sequence::from_der(staple) else { return false };
    let status = Enumerated::from_der(&response.content);
    rest.is_empty() && status.is_ok_and(|(_, status)| status == Enumerated(0))
}

/// The open files of a pair.
#[derive(Debug)]
pub(crate) struct OpenedPair {
    certificate: OpenedFile,
    key: OpenedFile,
    /// Clients do without a staple that cannot be read.
    staple: Option<Result<OpenedFile, CertificateError>>,
}

impl OpenedPair {
    pub(crate) fn open(source: &dyn FileSource, pair: &CertificatePair) -> Result<Self, CertificateError> {
        let staple = pair.staple.as_deref().map(|path| OpenedFile::open(source, path));
        let certificate = OpenedFile::open(source, &pair.certificate)?;
        Ok(Self { certificate, key: OpenedFile::open(source, &pair.key)?, staple })
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &OpenedFile> {
        let staple = self.staple.iter().filter_map(|staple| staple.as_ref().ok());
        [&self.certificate, &self.key].into_iter().chain(staple)
    }

    /// The staple, if the pair has one.
    ///
    /// # Errors
    /// Why clients get none.
    pub(crate) fn staple(&self) -> Result<Option<Vec<u8>>, CertificateError> {
        let Some(staple) = &self.staple else { return Ok(None) };
        let staple = staple.as_ref().map_err(Clone::clone)?;
        match staple.read()? {
            answer if is_answer(&answer) => Ok(Some(answer)),
            _ => Err(staple.unfit(
                "this is no successful answer about revocation (OCSP, in DER); fetch it again, or take staple away",
            )),
        }
    }

    pub(crate) fn stamps(&self) -> impl Iterator<Item = FileStamp> {
        self.files().map(OpenedFile::stamp)
    }

    /// Reads and checks certificate and key.
    pub(crate) fn load(&self, provider: &CryptoProvider) -> Result<CertifiedKey, CertificateError> {
        let chain = self.certificate.certificates()?;
        let key = self.key.private_key()?;
        let key = provider
            .key_provider
            .load_private_key(key)
            .map_err(|error| self.key.unfit(format!("the private key cannot be used: {error}")))?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            // A key without a public part cannot be compared, and fails in the first handshake.
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(rustls::Error::InconsistentKeys(_)) => {
                return Err(CertificateError::Mismatch {
                    certificate: self.certificate.path.clone(),
                    key: self.key.path.clone(),
                });
            }
            Err(error) => return Err(self.certificate.unfit(malformed(&error))),
        }
        Ok(certified)
    }
}

/// Why the first certificate cannot be used, and the cure.
fn malformed(error: &rustls::Error) -> String {
    let error = error.to_string();
    // The library has no type for this error.
    if error.contains("UnsupportedCertVersion") {
        return "the first certificate is of X.509 version 1; make one of version 3, for example with openssl x509 -req \
                and -extfile"
            .to_owned();
    }
    format!("the first certificate is malformed: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{provider::provider, testing::MadeCertificate};
    use std::{fs, os::unix::fs::PermissionsExt as _};

    fn load(pair: &CertificatePair) -> Result<CertifiedKey, String> {
        OpenedPair::open(&PlainFiles, pair)
            .and_then(|opened| opened.load(&provider()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn pair_loads() {
        let made = MadeCertificate::new(&["a.example"]);
        assert_eq!(load(&made.pair()).expect("it fits").cert.len(), 1);
    }

    #[test]
    fn staple_is_a_whole_successful_answer() {
        assert!(is_answer(&[0x30, 3, 0x0a, 1, 0]));
        assert!(is_answer(&[0x30, 5, 0x0a, 1, 0, 0xa0, 0]));
        for wrong in [
            &b""[..],
            b"an answer",
            &[0x30, 0],
            &[0x30, 3, 0x0a, 1, 6],
            &[0x30, 4, 0x0a, 1, 0],
            &[0x30, 3, 0x0a, 1, 0, 0],
        ] {
            assert!(!is_answer(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn key_in_the_certificate_file_loads() {
        let made = MadeCertificate::new(&["a.example"]);
        let pair = made.pair();
        let both = fs::read_to_string(&pair.certificate).unwrap() + &fs::read_to_string(&pair.key).unwrap();
        fs::write(&pair.key, both).unwrap();
        load(&CertificatePair { certificate: pair.key.clone(), ..pair }).expect("both are in one file");
    }

    #[test]
    fn unfit_pair_is_refused_with_file_and_reason() {
        let (one, other) = (MadeCertificate::new(&["a.example"]), MadeCertificate::new(&["b.example"]));
        let pair = one.pair();
        let refused = |pair: CertificatePair, expected: &[&str]| {
            let why = load(&pair).map(|_| ()).expect_err("it is refused");
            assert!(expected.iter().all(|part| why.contains(part)), "{why}");
        };
        let foreign = other.pair().key;
        let named = foreign.display().to_string();
        refused(CertificatePair { key: foreign, ..pair.clone() }, &["does not belong", &named]);
        refused(CertificatePair { key: "/none.pem".into(), ..pair.clone() }, &["/none.pem", "name another"]);
        refused(CertificatePair { certificate: pair.key.clone(), ..pair.clone() }, &["no certificate in it"]);
        let chain_only = one.folder().join("chain-only.pem");
        fs::copy(&pair.certificate, &chain_only).unwrap();
        fs::set_permissions(&chain_only, fs::Permissions::from_mode(0o644)).unwrap();
        refused(CertificatePair { key: chain_only, ..pair.clone() }, &["no private key in it", "--tls-key"]);
        fs::set_permissions(&pair.key, fs::Permissions::from_mode(0o644)).unwrap();
        refused(pair, &["every user of this machine", "0644", "chmod o="]);
    }

    /// Regression: the message named neither the version nor a cure.
    #[test]
    fn certificate_of_version_1_is_refused_with_cure() {
        let made = MadeCertificate::new(&["a.example"]);
        fs::write(made.pair().certificate, VERSION_1).unwrap();
        let why = load(&made.pair()).map(|_| ()).expect_err("it is refused");
        assert!(why.contains("X.509 version 1") && why.contains("-extfile"), "{why}");
    }

    /// Made by `openssl x509 -req` without extensions.
    const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBFDCBuwIUfAS537Ea6odvUOHByMvvQy3uCTMwCgYIKoZIzj0EAwIwDTELMAkG
A1UEAwwCdjEwHhcNMjYxMTI5MTU1ODIzWhcNMjYxMjI5MTU1ODIzWjANMQswCQYD
VQQDDAJ2MTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABPl9NGaSYV79l5z8TJ6Y
CyMHF+nNf4/RSpc3hNpH9wKxiklqecZYw7NmAYbJ3sC4o8sVIgiXHHlYvfMfDbAm
8TkwCgYIKoZIzj0EAwIDSAAwRQIgOcSpJvI3h0SA3YG2ldHfmM2bRkYjVM2qcAQT
yJJi94UCIQDyGyuPoIQ2yk2gx/S/unsHz4FEGsAXQx3yT7ZALiStXw==
-----END CERTIFICATE-----
";

    #[test]
    fn key_that_a_group_reads_loads() {
        let made = MadeCertificate::new(&["a.example"]);
        fs::set_permissions(made.pair().key, fs::Permissions::from_mode(0o640)).unwrap();
        load(&made.pair()).expect("Debian has a group for keys");
    }
}
