//! curl, Go, Python and Chromium: verified certificates, both versions, resumed sessions, and the
//! errors of certificates that do not fit.

use std::fs;
use std::process::Command;

use vermeil_bench::peers::find_program;

use super::server::{ConformanceSite, NAME, PAGE};
use super::{CommandOutput, Verdicts};
use crate::error::{Error, Result};

/// The line of a case: the begin, and words behind the begin.
type ExpectedLine = (&'static str, &'static str);

/// The lines of the Go program. Its versions are numbers of the protocol.
const GO: [ExpectedLine; 12] = [
    ("site.test", "303 false 200 12 <nil>"),
    ("site.test", "303 true 200 12 <nil>"),
    ("site.test", "304 false 200 12 <nil>"),
    ("site.test", "304 true 200 12 <nil>"),
    ("rsa.test", "304 false 200 12 <nil>"),
    ("p256.test", "304 false 200 12 <nil>"),
    ("p384.test", "304 false 200 12 <nil>"),
    ("p521.test", "304 false 200 12 <nil>"),
    ("ed25519.test", "304 false 200 12 <nil>"),
    ("expired.test", "certificate has expired or is not yet valid"),
    ("other.test", "certificate is valid for site.test, not other.test"),
    ("site.test", "protocol version not supported"),
];

/// The lines of the Python program.
const PYTHON: [ExpectedLine; 8] = [
    ("site.test", "TLSv1.2 False 200 12"),
    ("site.test", "TLSv1.2 True 200 12"),
    ("expired.test", "certificate has expired"),
    ("other.test", "Hostname mismatch"),
    ("site.test", "TLSv1.3 False 200 12"),
    ("site.test", "TLSv1.3 True 200 12"),
    ("expired.test", "certificate has expired"),
    ("other.test", "Hostname mismatch"),
];

/// Runs every client that is installed; a client that is missing is a failure.
pub(super) fn run(site: &ConformanceSite, verdicts: &mut Verdicts) -> Result<()> {
    let server = site.start()?;
    for (arguments, expected) in [
        (&["--tls-max", "1.2"][..], PAGE),
        (&["--tlsv1.3"], PAGE),
        (&["--tls-max", "1.1"], "alert protocol version"),
    ] {
        let result = curl(site, NAME, arguments, expected)?;
        verdicts.add(&format!("curl {}", arguments.join(" ")), result);
    }
    verdicts.add("curl, expired certificate", curl(site, "expired.test", &[], "certificate has expired")?);
    let (port, authority) = (site.address.port().to_string(), site.text_path("ca.crt"));
    let source = site.text_path("client.go");
    site.write("client.go", include_str!("client.go"))?;
    let mut go = Command::new("go");
    go.args(["run", &source, &site.address.to_string(), &authority]).env("GO111MODULE", "off");
    verdicts.add("Go", lines("go", go.env("GOCACHE", site.target.join("conformance/go")), &GO)?);
    let script = site.text_path("client.py");
    site.write("client.py", include_str!("client.py"))?;
    let mut python = Command::new("python3");
    python.args([&script, &site.address.ip().to_string(), &port, &authority]);
    verdicts.add("Python", lines("python3", &mut python, &PYTHON)?);
    verdicts.add("Chromium", chromium(site, NAME, true, PAGE)?);
    verdicts.add("Chromium, unknown authority", chromium(site, NAME, false, "ERR_CERT_AUTHORITY_INVALID")?);
    let expired = chromium(site, "expired.test", true, "ERR_CERT_DATE_INVALID")?;
    verdicts.add("Chromium, expired certificate", expired);
    server.stop()
}

/// A remark, or the problem.
type ClientVerdict = std::result::Result<String, String>;

fn contains(output: &CommandOutput, words: &str) -> ClientVerdict {
    match output.text.contains(words) {
        true => Ok(words.trim().to_owned()),
        false => Err(format!("no {words:?} in: {}", output.tail())),
    }
}

fn curl(site: &ConformanceSite, name: &str, arguments: &[&str], words: &str) -> Result<ClientVerdict> {
    let mut command = Command::new("curl");
    let port = site.address.port();
    command.args(["-sS", "--max-time", "20", "--resolve", &format!("{name}:{port}:{}", site.address.ip())]);
    command.arg("--cacert").arg(site.authority.certificate()).args(arguments);
    // Otherwise curl itself refuses old versions.
    command.args(["--ciphers", "DEFAULT@SECLEVEL=0", &format!("https://{name}:{port}/")]);
    Ok(contains(&CommandOutput::of(&mut command)?, words))
}

/// Runs a client that prints a line for each case.
fn lines(program: &str, command: &mut Command, expected: &[ExpectedLine]) -> Result<ClientVerdict> {
    if find_program(program).is_none() {
        return Ok(Err("is not installed".into()));
    }
    let output = CommandOutput::of(command)?;
    let said: Vec<&str> = output.text.lines().collect();
    let fits =
        |(line, (begin, words)): (&&str, &ExpectedLine)| line.starts_with(begin) && line.contains(words);
    let is_whole = said.len() == expected.len() && said.iter().zip(expected).all(fits);
    Ok(if is_whole { Ok(format!("{} cases", expected.len())) } else { Err(output.text) })
}

/// Opens the page, with the test authority in the store of the user or without.
fn chromium(site: &ConformanceSite, name: &str, knows_authority: bool, words: &str) -> Result<ClientVerdict> {
    let (Some(program), Some(_)) = (find_program("chromium"), find_program("certutil")) else {
        return Ok(Err("chromium or certutil is not installed".into()));
    };
    let home = site.path(if knows_authority { "home" } else { "home-without" });
    let store = home.join(".pki/nssdb");
    if !store.exists() {
        fs::create_dir_all(&store).map_err(Error::path("create", &store))?;
        let database = format!("sql:{}", store.display());
        let certutil = |arguments: &[&str]| {
            CommandOutput::of(Command::new("certutil").args(arguments).args(["-d", &database]))
        };
        certutil(&["-N", "--empty-password"])?;
        if knows_authority {
            certutil(&["-A", "-n", "test", "-t", "C,,", "-i", &site.text_path("ca.crt")])?;
        }
    }
    let mut command = Command::new("timeout");
    command.arg("60").arg(program).args(["--headless=new", "--no-sandbox", "--disable-gpu"]);
    command.args(["--disable-dev-shm-usage", "--no-first-run"]).env("HOME", &home);
    command.arg(format!("--user-data-dir={}", home.join("data").display()));
    command.arg(format!("--host-resolver-rules=MAP {name} {}", site.address.ip()));
    command.args(["--dump-dom", &format!("https://{name}:{}/", site.address.port())]);
    Ok(contains(&CommandOutput::of(&mut command)?, words))
}
