//! Every version, key exchange and signature that openssl knows, each in a handshake of its own:
//! the table says which the server accepts.

use std::process::{Command, Stdio};

use super::authority::TestKey;
use super::server::{ConformanceSite, HOSTS};
use super::{CommandOutput, Verdicts};
use crate::error::Result;

/// `handshake_failure` (RFC 8446, section 6).
const HANDSHAKE_FAILURE: u8 = 40;

/// `protocol_version`.
const PROTOCOL_VERSION: u8 = 70;

/// The options of openssl for the versions that the server speaks.
const SPOKEN: [&str; 2] = ["-tls1_2", "-tls1_3"];

/// The options for older versions.
const OLDER: [&str; 2] = ["-tls1", "-tls1_1"];

/// The key exchanges that the server accepts. X25519MLKEM768 needs OpenSSL 3.5; Go and Chromium
/// try this exchange.
const ACCEPTED_GROUPS: [&str; 3] = ["X25519", "prime256v1", "secp384r1"];

/// The other key exchanges of openssl: short, slow or uncommon curves, and finite fields.
const REFUSED_GROUPS: [&str; 32] = [
    "X448",
    "secp521r1",
    "brainpoolP256r1",
    "brainpoolP384r1",
    "brainpoolP512r1",
    "secp256k1",
    "secp160k1",
    "secp160r1",
    "secp160r2",
    "secp192k1",
    "prime192v1",
    "secp224k1",
    "secp224r1",
    "sect163k1",
    "sect163r1",
    "sect163r2",
    "sect193r1",
    "sect193r2",
    "sect233k1",
    "sect233r1",
    "sect239k1",
    "sect283k1",
    "sect283r1",
    "sect409k1",
    "sect409r1",
    "sect571k1",
    "sect571r1",
    "ffdhe2048",
    "ffdhe3072",
    "ffdhe4096",
    "ffdhe6144",
    "ffdhe8192",
];

/// The signatures of openssl.
const SIGNATURES: [&str; 23] = [
    "RSA+SHA1",
    "RSA+SHA224",
    "RSA+SHA256",
    "RSA+SHA384",
    "RSA+SHA512",
    "rsa_pss_rsae_sha256",
    "rsa_pss_rsae_sha384",
    "rsa_pss_rsae_sha512",
    "rsa_pss_pss_sha256",
    "rsa_pss_pss_sha384",
    "rsa_pss_pss_sha512",
    "ECDSA+SHA1",
    "ECDSA+SHA224",
    "ECDSA+SHA256",
    "ECDSA+SHA384",
    "ECDSA+SHA512",
    "ed25519",
    "ed448",
    "DSA+SHA1",
    "DSA+SHA224",
    "DSA+SHA256",
    "DSA+SHA384",
    "DSA+SHA512",
];

/// The signatures that the server makes with a key in a version.
fn accepted_signatures(key: TestKey, version: &str) -> &'static [&'static str] {
    match (key, version) {
        (TestKey::Rsa, "-tls1_2") => &SIGNATURES[2..8],
        (TestKey::Rsa, _) => &SIGNATURES[5..8],
        (TestKey::P256, _) => &["ECDSA+SHA256"],
        (TestKey::P384, _) => &["ECDSA+SHA384"],
        (TestKey::P521, _) => &["ECDSA+SHA512"],
        (TestKey::Ed25519, _) => &["ed25519"],
    }
}

/// The result of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandshakeOutcome {
    /// With a verified certificate.
    Accepted,
    /// The server sent this alert.
    Alert(u8),
    /// openssl itself offers no such handshake, or gives it up.
    Unable,
}

/// Judges the tables.
pub(super) fn run(site: &ConformanceSite, verdicts: &mut Verdicts) -> Result<()> {
    let server = site.start()?;
    for version in OLDER {
        let outcome = outcome(site, "site.test", &[version])?;
        verdicts.add(&format!("openssl {version}"), expect(outcome, &[refused(PROTOCOL_VERSION)]));
    }
    for version in SPOKEN {
        groups(site, version, verdicts)?;
        for (name, key) in HOSTS {
            signatures(site, (name, key), version, verdicts)?;
        }
    }
    unknown_names(site, verdicts)?;
    server.stop()
}

fn refused(alert: u8) -> HandshakeOutcome {
    HandshakeOutcome::Alert(alert)
}

fn expect(outcome: HandshakeOutcome, expected: &[HandshakeOutcome]) -> std::result::Result<String, String> {
    match expected.contains(&outcome) {
        true => Ok(format!("{outcome:?}")),
        false => Err(format!("{outcome:?} in place of {expected:?}")),
    }
}

/// Tries every key exchange in a version, and prints one line.
fn groups(site: &ConformanceSite, version: &str, verdicts: &mut Verdicts) -> Result<()> {
    let mut wrong = Vec::new();
    // Up to TLS 1.2, openssl takes no certificate of a curve that is not on the list, so the host
    // has a certificate without a curve.
    for group in ACCEPTED_GROUPS.iter().chain(&REFUSED_GROUPS) {
        let outcome = outcome(site, "rsa.test", &[version, "-groups", group])?;
        let is_accepted = ACCEPTED_GROUPS.contains(group);
        wrong.extend(problem(group, outcome, is_accepted));
    }
    let remark = format!("{} accepted, {} refused", ACCEPTED_GROUPS.len(), REFUSED_GROUPS.len());
    verdicts.add(&format!("openssl {version}, every key exchange"), result_of(wrong, remark));
    Ok(())
}

fn problem(name: &str, outcome: HandshakeOutcome, is_accepted: bool) -> Option<String> {
    let fits = match outcome {
        HandshakeOutcome::Accepted => is_accepted,
        HandshakeOutcome::Alert(alert) => !is_accepted && alert == HANDSHAKE_FAILURE,
        HandshakeOutcome::Unable => !is_accepted,
    };
    (!fits).then(|| format!("{name}: {outcome:?}"))
}

fn result_of(wrong: Vec<String>, remark: String) -> std::result::Result<String, String> {
    if wrong.is_empty() { Ok(remark) } else { Err(wrong.join(", ")) }
}

/// Tries every signature with a key in a version, and prints one line.
fn signatures(
    site: &ConformanceSite,
    (name, key): (&str, TestKey),
    version: &str,
    verdicts: &mut Verdicts,
) -> Result<()> {
    let accepted = accepted_signatures(key, version);
    let mut wrong = Vec::new();
    for signature in SIGNATURES {
        let outcome = outcome(site, &format!("{name}.test"), &[version, "-sigalgs", signature])?;
        wrong.extend(problem(signature, outcome, accepted.contains(&signature)));
    }
    let remark = format!("accepted {}", accepted.join(" "));
    verdicts.add(&format!("openssl {version}, every signature by {key:?}"), result_of(wrong, remark));
    Ok(())
}

/// A client that names no host, or an unknown host, gets the certificate of the default host.
fn unknown_names(site: &ConformanceSite, verdicts: &mut Verdicts) -> Result<()> {
    for arguments in [&["-noservername"][..], &["-servername", "unknown.test"]] {
        let output = s_client(site, arguments, "true")?;
        let has_default = output.text.contains("subject=CN = site.test");
        let result = if has_default { Ok("the default host".to_owned()) } else { Err(output.tail()) };
        verdicts.add(&format!("openssl {}", arguments.join(" ")), result);
    }
    Ok(())
}

/// The result of a handshake with the host `name`.
pub(super) fn outcome(site: &ConformanceSite, name: &str, arguments: &[&str]) -> Result<HandshakeOutcome> {
    let usual = ["-servername", name, "-verify_hostname", name, "-cipher", "ALL:@SECLEVEL=0"];
    let output = s_client(site, &[&usual, arguments].concat(), "true")?;
    let alert = output.text.split_once("SSL alert number ").and_then(|(_, rest)| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    });
    Ok(match alert {
        Some(alert) => HandshakeOutcome::Alert(alert),
        None if output.succeeded && output.text.contains("Verification: OK") => HandshakeOutcome::Accepted,
        None => HandshakeOutcome::Unable,
    })
}

/// Runs `openssl s_client`, whose input is the output of a line of shell.
pub(super) fn s_client(site: &ConformanceSite, arguments: &[&str], input: &str) -> Result<CommandOutput> {
    let mut command = Command::new("sh");
    command.args(["-c", "eval \"$0\" | timeout 20 openssl s_client \"$@\"", input]);
    command.args(["-connect", &site.address.to_string(), "-verify_return_error", "-CAfile"]);
    command.arg(site.authority.certificate()).args(arguments).stdin(Stdio::null());
    CommandOutput::of(&mut command)
}
