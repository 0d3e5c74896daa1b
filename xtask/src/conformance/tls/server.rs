//! The server under judgement: a host for each kind of key, and the default host with two kinds.

use std::cell::Cell;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::CommandOutput;
use super::authority::{TestAuthority, TestKey, Validity};
use crate::error::{Error, Result};

/// Maximum time until the server has done as asked.
const PATIENCE: Duration = Duration::from_secs(60);

/// Interval of the looks.
const LOOK: Duration = Duration::from_millis(20);

/// The time of a handshake.
pub(super) const HEADER_TIMEOUT: Duration = Duration::from_secs(2);

/// The name of the default host.
pub(super) const NAME: &str = "site.test";

/// The hosts beside the default host, as `NAME.test`.
pub(super) const HOSTS: [(&str, TestKey); 5] = [
    ("rsa", TestKey::Rsa),
    ("p256", TestKey::P256),
    ("p384", TestKey::P384),
    ("p521", TestKey::P521),
    ("ed25519", TestKey::Ed25519),
];

/// The content of the page of every host.
pub(super) const PAGE: &str = "<p>home</p>\n";

/// The folder of a server with its certificates.
#[derive(Debug)]
pub(super) struct ConformanceSite {
    folder: TempDir,
    pub(super) program: PathBuf,
    /// cargo's output folder. Reports, logs and tools stay in its folder `conformance`.
    pub(super) target: PathBuf,
    pub(super) authority: TestAuthority,
    pub(super) address: SocketAddr,
    /// Servers that were started.
    started: Cell<usize>,
}

impl ConformanceSite {
    pub(super) fn new(program: PathBuf, target: &Path) -> Result<Self> {
        let folder = tempfile::tempdir().map_err(Error::path("create", Path::new("a folder")))?;
        let authority = TestAuthority::new(folder.path())?;
        for (name, key) in HOSTS {
            authority.certify(name, &format!("{name}.test"), key, Validity::Present)?;
        }
        authority.certify("expired", "expired.test", TestKey::P256, Validity::Expired)?;
        authority.certify("site-p256", NAME, TestKey::P256, Validity::Present)?;
        authority.certify("site-rsa", NAME, TestKey::Rsa, Validity::Present)?;
        let site = Self {
            authority,
            program,
            target: target.to_owned(),
            address: free()?,
            folder,
            started: Cell::new(0),
        };
        let kept = target.join("conformance");
        fs::create_dir_all(&kept).map_err(Error::path("create", &kept))?;
        site.write("site/index.html", PAGE)?;
        site.write("vermeil.toml", &site.configuration())?;
        Ok(site)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file of this folder for a tool that gets text.
    pub(super) fn text_path(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path(name);
        let folder = path.parent().unwrap_or(&path);
        fs::create_dir_all(folder).map_err(Error::path("create", folder))?;
        fs::write(&path, text).map_err(Error::path("write", &path))
    }

    fn configuration(&self) -> String {
        let mut text = format!(
            "control = \"control\"\nlog = \"off\"\n[timeouts]\nheader = \"{}s\"\n[[listener]]\naddress = \"{}\"\n\
             tls = true\n[[host]]\nroot = \"site\"\nhttps = \"only\"\n\
             certificate = [\"site-p256.crt\", \"site-rsa.crt\"]\nkey = [\"site-p256.key\", \"site-rsa.key\"]\n\
             headers = {{ X-Content-Type-Options = \"nosniff\" }}\n",
            HEADER_TIMEOUT.as_secs(),
            self.address
        );
        for name in HOSTS.iter().map(|(name, _)| *name).chain(["expired"]) {
            text += &format!(
                "[[host]]\nnames = [\"{name}.test\"]\nroot = \"site\"\ncertificate = \"{name}.crt\"\nkey = \"{name}.key\"\n"
            );
        }
        text
    }

    /// Starts a server, and waits until clients can connect.
    pub(super) fn start(&self) -> Result<ConformanceServer> {
        self.start_with(&[], "serving ")
    }

    /// Starts a server that takes over from the present server.
    pub(super) fn take_over(&self) -> Result<ConformanceServer> {
        self.start_with(&["--take-over"], "took over from process ")
    }

    fn start_with(&self, arguments: &[&str], said: &str) -> Result<ConformanceServer> {
        self.started.set(self.started.get() + 1);
        let log = self.target.join(format!("conformance/server-{}.log", self.started.get()));
        let file = File::create(&log).map_err(Error::path("create", &log))?;
        let mut command = Command::new(&self.program);
        command.arg("serve").arg("--config").arg(self.path("vermeil.toml")).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let process = command.spawn().map_err(Error::path("start", &self.program))?;
        let server = ConformanceServer { process, log };
        server.until_said(said, 1)?;
        Ok(server)
    }

    /// A command of the program about the running server.
    pub(super) fn control(&self, command: &str) -> Result<CommandOutput> {
        CommandOutput::of(Command::new(&self.program).arg(command).arg("--control").arg(self.path("control")))
    }
}

fn free() -> Result<SocketAddr> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    free.map_err(Error::path("find a port on", Path::new("127.0.0.1")))
}

/// Waits until `condition` returns a value.
pub(super) fn until<T>(what: &str, mut condition: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition()? {
            return Ok(value);
        }
        if Instant::now() > deadline {
            return Err(Error::form(what, format!("not within {} s", PATIENCE.as_secs())));
        }
        thread::sleep(LOOK);
    }
}

/// A running server.
#[derive(Debug)]
pub(super) struct ConformanceServer {
    process: Child,
    log: PathBuf,
}

impl ConformanceServer {
    pub(super) fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits until the server has written `words` so many times.
    pub(super) fn until_said(&self, words: &str, times: usize) -> Result<()> {
        until(words, || Ok((self.said().matches(words).count() >= times).then_some(())))
            .map_err(|error| Error::form(error, self.said()))
    }

    /// Waits for the end of a server that was replaced, or that got a signal.
    pub(super) fn ends(mut self) -> Result<()> {
        let status = until("the end of the server", || {
            self.process.try_wait().map_err(Error::path("wait for", Path::new("the server")))
        })?;
        let said = self.said();
        if status.success() && !said.contains("panicked") {
            return Ok(());
        }
        Err(Error::form(format!("vermeil serve ended ({status})"), said))
    }

    /// Stops the server, which must end without a complaint.
    pub(super) fn stop(self) -> Result<()> {
        let _ = Command::new("kill").arg(self.pid().to_string()).status();
        self.ends()
    }
}

impl Drop for ConformanceServer {
    fn drop(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}
