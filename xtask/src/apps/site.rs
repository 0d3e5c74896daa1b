//! A site with an application: Vermeil, and nginx in front if nginx ends TLS.
//!
//! Both have the configurations of the page, with the addresses, folders and users of the test.
//! Leaves out the application itself.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::page_config::PageConfig;
use crate::browser::Browser;
use crate::error::{Error, Result};
use crate::packages::is_root;
use crate::steps::run_command;

/// Maximum time until a server answers.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Interval of the checks whether a server answers.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// The user of a site's programs in the test, if the superuser runs the test.
pub(super) const SITE_USER: &str = "games";

/// The heading of the page for sites whose TLS ends at nginx.
const PROXY_HEADING: &str = "Behind a TLS proxy";

/// The programs and folders that all applications need.
pub(super) struct AppTools {
    /// The repository, with the pages.
    pub(super) root: PathBuf,
    /// The folder of the pictures.
    pub(super) pictures: PathBuf,
    /// The server under test.
    pub(super) vermeil: PathBuf,
    /// The browser.
    pub(super) chromium: PathBuf,
}

impl AppTools {
    /// Makes a picture of the page in `browser`.
    pub(super) fn keep_picture(&self, browser: &mut Browser, name: &str) -> Result<()> {
        browser.keep_picture(&self.pictures.join(format!("{name}.png")))
    }
}

/// The place where TLS ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SiteFront {
    /// At Vermeil's own listener.
    OwnTls,
    /// At nginx, which names the client's scheme in a field.
    TlsProxy,
}

impl SiteFront {
    /// Both places.
    pub(super) const ALL: [Self; 2] = [Self::OwnTls, Self::TlsProxy];

    /// The name in reports.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::OwnTls => "own TLS",
            Self::TlsProxy => "behind nginx with TLS",
        }
    }

    /// The name in files.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::OwnTls => "own-tls",
            Self::TlsProxy => "proxy",
        }
    }
}

/// A running site.
pub(super) struct AppSite {
    // The fields drop in this order, so nginx ends first.
    _proxy: Option<SiteProcess>,
    _server: SiteProcess,
    address: SocketAddr,
    host: String,
    folder: PathBuf,
}

impl AppSite {
    /// Starts the site of `config`, whose host on the page is `NAME.example.org`, with all files in
    /// `folder`. The host in the test is `NAME.localhost`, because browsers and curl find this name
    /// at the loopback address.
    pub(super) fn start(
        tools: &AppTools,
        folder: &Path,
        front: SiteFront,
        config: PageConfig,
        name: &str,
    ) -> Result<Self> {
        let (page_host, host) = (format!("{name}.example.org"), format!("{name}.localhost"));
        make_certificate(folder, &host)?;
        let control = folder.join("control");
        let config = config
            .replace("/run/vermeil/control", &control.display().to_string())?
            .replace("\"/var/log/vermeil/access.log\"", "\"off\"")?;
        let (address, inner) = (free_address()?, free_address()?);
        let config = match front {
            SiteFront::OwnTls => with_certificate(config, folder, &page_host)?
                .replace("\":443\"", &format!("\"{address}\""))?
                .replace("\":80\"", &format!("\"{inner}\""))?,
            SiteFront::TlsProxy => {
                let listeners = PageConfig::read(&tools.root, PROXY_HEADING, "toml")?;
                let listeners = listeners.replace("127.0.0.1:8080", &inner.to_string())?;
                config.without_lines(&["certificate =", "key =", "https ="]).with_listeners(listeners.text())
            }
        };
        let mut config = config.replace(&page_host, &host)?;
        if !is_root() {
            config = config.without_lines(&["user ="]);
        }
        let file = write(folder, "vermeil.toml", config.text())?;
        let mut command = Command::new(&tools.vermeil);
        command.arg("serve").arg("--config").arg(&file);
        let server = SiteProcess::start(command, inner)?;
        let proxy = match front {
            SiteFront::OwnTls => None,
            SiteFront::TlsProxy => Some(start_nginx(tools, folder, address, inner, &host)?),
        };
        wait_for(address)?;
        Ok(Self { _proxy: proxy, _server: server, address, host, folder: folder.to_owned() })
    }

    /// The address of a path: `https://HOST:PORT` and the path.
    pub(super) fn url(&self, path: &str) -> String {
        format!("https://{}:{}{path}", self.host, self.address.port())
    }

    /// The certificate, which is its own authority.
    pub(super) fn authority(&self) -> PathBuf {
        self.folder.join("certificate.pem")
    }

    /// A browser that trusts the certificate.
    pub(super) fn browser(&self, tools: &AppTools) -> Result<Browser> {
        let digest = Command::new("sh")
            .args(["-c", SPKI_DIGEST, "sh"])
            .arg(self.authority())
            .output()
            .map_err(Error::path("start", Path::new("openssl")))?;
        let digest = String::from_utf8_lossy(&digest.stdout).trim().to_owned();
        Browser::start(&tools.chromium, &self.folder.join("browser"), Some(&digest))
    }

    /// Refuses a page with links of the site that lack https, and with parts that could not be
    /// loaded.
    pub(super) fn check_page(&self, browser: &mut Browser) -> Result<()> {
        let links = browser.value(
            "[...document.querySelectorAll('[href],[src],[action]')]\
             .map(element => String(element.href || element.src || element.getAttribute('action')))\
             .filter(link => link.startsWith('http://' + location.hostname)).slice(0, 5).join(' ')",
        )?;
        let lost = browser.value(
            "performance.getEntriesByType('resource').filter(part => part.responseStatus >= 400)\
             .map(part => part.responseStatus + ' ' + part.name).join(' ')",
        )?;
        let place = browser.value("location.href")?;
        println!("checked: {place}");
        for (found, problem) in [(links, "links without https"), (lost, "parts that are not there")] {
            if found != "" {
                return Err(Error::form(place, format!("{problem}: {found}")));
            }
        }
        Ok(())
    }
}

/// A process of the site, which ends with the value.
struct SiteProcess(Child);

impl SiteProcess {
    /// Starts a server, and waits until it listens.
    fn start(mut command: Command, address: SocketAddr) -> Result<Self> {
        command.stdin(Stdio::null());
        let program = PathBuf::from(command.get_program());
        let process = Self(command.spawn().map_err(Error::path("start", &program))?);
        wait_for(address)?;
        Ok(process)
    }
}

impl Drop for SiteProcess {
    fn drop(&mut self) {
        // The server removes its files; it ends within its time for draining.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// Prints the digest of the public key in `$1`, as Chromium wants it.
const SPKI_DIGEST: &str = "openssl x509 -in \"$1\" -pubkey -noout | openssl pkey -pubin -outform der | \
                           openssl dgst -sha256 -binary | base64";

/// Waits until a server listens.
fn wait_for(address: SocketAddr) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while TcpStream::connect(address).is_err() {
        if Instant::now() > deadline {
            return Err(Error::form(address, "no server listens there"));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// An address without a server.
pub(super) fn free_address() -> Result<SocketAddr> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    free.map_err(Error::path("find a port on", Path::new("127.0.0.1")))
}

/// Writes a file into a folder.
pub(super) fn write(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    fs::write(&path, text).map_err(Error::path("write", &path))?;
    Ok(path)
}

fn make_certificate(folder: &Path, host: &str) -> Result<()> {
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
    command.args(["-days", "30", "-subj", "/CN=test", "-addext", &format!("subjectAltName=DNS:{host}")]);
    command.arg("-keyout").arg(folder.join("key.pem")).arg("-out").arg(folder.join("certificate.pem"));
    run_command(command.stderr(Stdio::null()))
}

/// The configuration with the test's certificate in place of that of certbot.
fn with_certificate(config: PageConfig, folder: &Path, page_host: &str) -> Result<PageConfig> {
    let certbot = format!("/etc/letsencrypt/live/{page_host}");
    let path = |name: &str| folder.join(name).display().to_string();
    config
        .replace(&format!("{certbot}/fullchain.pem"), &path("certificate.pem"))?
        .replace(&format!("{certbot}/privkey.pem"), &path("key.pem"))
}

/// nginx with the page's configuration of a TLS proxy.
fn start_nginx(
    tools: &AppTools,
    folder: &Path,
    address: SocketAddr,
    inner: SocketAddr,
    host: &str,
) -> Result<SiteProcess> {
    let page = PageConfig::read(&tools.root, PROXY_HEADING, "nginx")?;
    let server = with_certificate(page, folder, "blog.example.org")?
        .replace("listen 443", &format!("listen {address}"))?
        .replace("127.0.0.1:8080", &inner.to_string())?
        .replace("blog.example.org", host)?;
    let place = folder.display();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {place}/nginx-{name};\n"))
        .concat();
    let text = format!(
        "daemon off;\npid {place}/nginx.pid;\nerror_log stderr warn;\nevents {{}}\n\
         http {{\naccess_log off;\n{temporary}{}}}\n",
        server.text()
    );
    let file = write(folder, "nginx.conf", &text)?;
    let mut command = Command::new("nginx");
    command.args(["-e", "stderr", "-p"]).arg(folder).arg("-c").arg(&file);
    SiteProcess::start(command, address)
}
