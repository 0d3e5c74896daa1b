//! Certificates that clients refuse at this time, although their files are fit: a certificate that
//! has expired, or that is not valid yet.
//!
//! The server uses them nevertheless, because refusing to start would make the fault worse. Tested
//! below.

use crate::certificate::{CertificateError, CertificatePair, OpenedFile, PlainFiles};
use rustls::pki_types::CertificateDer;
use std::path::{Path, PathBuf};
use x509_parser::{parse_x509_certificate, time::ASN1Time};

/// A certificate outside the time in which it is valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct OutOfDate {
    /// The file of the certificate.
    pub path: PathBuf,
    /// The times and the cure.
    pub why: String,
}

impl OutOfDate {
    /// Reads the certificate of the host. `None` if its time has come and is not over, or if the
    /// file is unfit.
    pub fn of_pair(pair: &CertificatePair) -> Option<Self> {
        let chain = || -> Result<_, CertificateError> {
            OpenedFile::open(&PlainFiles, &pair.certificate)?.certificates()
        };
        Self::of(&pair.certificate, chain().ok()?.first()?)
    }

    /// The same for a certificate that was read from `path`.
    pub(crate) fn of(path: &Path, certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = parse_x509_certificate(certificate).ok()?;
        let (from, to) = (parsed.validity().not_before, parsed.validity().not_after);
        let now = ASN1Time::now();
        let why = if now > to {
            format!("the certificate expired on {to}, so clients refuse it; renew it")
        } else if now < from {
            format!(
                "the certificate is valid from {from} on, so clients refuse it; wait, or set the clock of this machine"
            )
        } else {
            return None;
        };
        Some(Self { path: path.to_owned(), why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MadeCertificate;

    fn of_years(from: i32, to: i32) -> Option<String> {
        let made = MadeCertificate::of_years(from, to);
        let out_of_date = OutOfDate::of_pair(&made.pair())?;
        assert_eq!(out_of_date.path, made.pair().certificate);
        Some(out_of_date.why)
    }

    #[test]
    fn expired_certificate_is_told() {
        let why = of_years(2001, 2002).expect("told");
        assert!(why.contains("expired on") && why.contains("2002") && why.contains("renew"), "{why}");
    }

    #[test]
    fn certificate_of_the_future_is_told() {
        let why = of_years(2900, 2950).expect("told");
        assert!(why.contains("valid from") && why.contains("2900"), "{why}");
    }

    #[test]
    fn certificate_in_its_time_is_not_told() {
        assert_eq!(of_years(2001, 2950), None);
    }
}
