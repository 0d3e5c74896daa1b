//! Certificates of a test authority, made by openssl: valid for 90 days, with names, so that
//! scanners find no fault in the certificates themselves.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::CommandOutput;
use crate::error::{Error, Result};

/// The kind of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TestKey {
    Rsa,
    P256,
    P384,
    P521,
    Ed25519,
}

impl TestKey {
    /// The arguments of `openssl req`.
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Rsa => &["-newkey", "rsa:2048"],
            Self::P256 => &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
            Self::P384 => &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384"],
            Self::P521 => &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-521"],
            Self::Ed25519 => &["-newkey", "ed25519"],
        }
    }
}

/// Whether a certificate is valid today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Validity {
    Present,
    Expired,
}

/// An authority in a folder: `ca.crt` is its certificate.
#[derive(Debug)]
pub(super) struct TestAuthority {
    folder: PathBuf,
}

impl TestAuthority {
    pub(super) fn new(folder: &Path) -> Result<Self> {
        let authority = Self { folder: folder.to_owned() };
        let mut command = authority.openssl("req");
        command.args(["-x509", "-nodes", "-days", "90"]).args(TestKey::P256.arguments());
        command.args(["-subj", "/CN=Vermeil test authority", "-keyout", "ca.key", "-out", "ca.crt"]);
        command.args(["-addext", "basicConstraints=critical,CA:TRUE"]);
        command.args(["-addext", "keyUsage=critical,keyCertSign,cRLSign"]);
        succeed(&mut command)?;
        Ok(authority)
    }

    pub(super) fn certificate(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    fn openssl(&self, command: &str) -> Command {
        let mut openssl = Command::new("openssl");
        openssl.arg(command).current_dir(&self.folder);
        openssl
    }

    /// Makes `FILE.crt` and `FILE.key` for the host `name`, or replaces them, each by a rename.
    pub(super) fn certify(&self, file: &str, name: &str, key: TestKey, validity: Validity) -> Result<()> {
        // No server asks the responder. Scanners want a certificate that can be revoked.
        let extensions = format!(
            "subjectAltName=DNS:{name}\nbasicConstraints=critical,CA:FALSE\n\
             keyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\n\
             authorityInfoAccess=OCSP;URI:http://ocsp.test/\n\
             subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
        );
        let path = self.folder.join("extensions");
        fs::write(&path, extensions).map_err(Error::path("write", &path))?;
        let mut request = self.openssl("req");
        request.args(["-nodes", "-keyout", "new.key", "-out", "new.csr"]).args(key.arguments());
        succeed(request.args(["-subj", &format!("/CN={name}")]))?;
        let mut sign = self.openssl("x509");
        sign.args(["-req", "-in", "new.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"]);
        let days = if validity == Validity::Expired { "-1" } else { "90" };
        succeed(sign.args(["-days", days, "-extfile", "extensions", "-out", "new.crt"]))?;
        let private = fs::Permissions::from_mode(0o600);
        let new = self.folder.join("new.key");
        fs::set_permissions(&new, private).map_err(Error::path("protect", &new))?;
        for end in ["key", "crt"] {
            let (new, known) = (format!("new.{end}"), format!("{file}.{end}"));
            let new = self.folder.join(new);
            fs::rename(&new, self.folder.join(known)).map_err(Error::path("rename", &new))?;
        }
        Ok(())
    }
}

fn succeed(command: &mut Command) -> Result<()> {
    let output = CommandOutput::of(command)?;
    if output.succeeded { Ok(()) } else { Err(Error::form("openssl", output.tail())) }
}
