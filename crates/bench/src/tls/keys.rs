//! The certificates of the bench: one with a key of each kind, made by openssl.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::network::run;
use crate::{BenchError, BenchResult};

/// The kind of a server's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    /// ECDSA on the curve P-256, which certbot makes by default.
    Ecdsa,
    /// RSA with 2,048 bits.
    Rsa,
}

/// A certificate and its key.
#[derive(Clone, Debug)]
pub(crate) struct ServerPair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// The certificates.
#[derive(Clone, Debug)]
pub(crate) struct TlsKeys {
    ecdsa: ServerPair,
    rsa: ServerPair,
}

impl TlsKeys {
    /// Makes the certificates in `folder`.
    ///
    /// # Errors
    /// openssl is missing or refuses.
    pub(crate) fn make(folder: &Path) -> BenchResult<Self> {
        let ecdsa = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
        let rsa = ["-newkey", "rsa:2048"];
        Ok(Self { ecdsa: certified(folder, "ecdsa", &ecdsa)?, rsa: certified(folder, "rsa", &rsa)? })
    }

    pub(crate) fn of(&self, kind: KeyKind) -> &ServerPair {
        match kind {
            KeyKind::Ecdsa => &self.ecdsa,
            KeyKind::Rsa => &self.rsa,
        }
    }
}

/// One certificate for `localhost`, and its key.
fn certified(folder: &Path, name: &str, key: &[&str]) -> BenchResult<ServerPair> {
    let files = ServerPair {
        certificate: folder.join(format!("{name}.crt")),
        key: folder.join(format!("{name}.key")),
    };
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-nodes", "-days", "30", "-subj", "/CN=localhost"]).args(key);
    command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    command.args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]);
    command.arg("-keyout").arg(&files.key).arg("-out").arg(&files.certificate);
    run(&mut command)?;
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(&files.key, private).map_err(BenchError::path("protect", &files.key))?;
    Ok(files)
}
