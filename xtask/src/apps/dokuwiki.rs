//! DokuWiki with a separate pool of PHP, served from the command line without a configuration.
//!
//! Chromium logs in, writes a page, saves the page, and reads the page again, clicking and typing
//! like a person.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use vermeil_bench::dokuwiki::{USER, Wiki};

use super::site::{AppTools, LOOK, PATIENCE, free_address};
use crate::browser::Browser;
use crate::error::{Error, Result};

/// The text of the page.
const TEXT: &str = "====== Pearls ======\n\nWritten **by hand** in a browser.";

/// Fetches the wiki.
pub(super) fn prepare() -> Result<Wiki> {
    Ok(Wiki::prepare()?)
}

/// Serves the wiki, and uses it.
pub(super) fn use_it(tools: &AppTools, wiki: &Wiki) -> Result<()> {
    let server = WikiServer::start(&tools.vermeil, wiki)?;
    write_page(&server, tools, wiki)?;
    println!("{}", server.status()?);
    Ok(())
}

/// Logs in, writes a page, saves it and reads it again.
fn write_page(server: &WikiServer, tools: &AppTools, wiki: &Wiki) -> Result<()> {
    let mut browser = Browser::start(&tools.chromium, &wiki.folder().join("browser"), None)?;
    let page = |rest: &str| format!("http://{}/doku.php?id=pearls{rest}", server.address);
    browser.go(&page("&do=login"))?;
    browser.until("document.querySelector('#dw__login')")?;
    browser.type_into("#dw__login input[name=u]", USER.0)?;
    browser.type_into("#dw__login input[name=p]", USER.1)?;
    browser.click("#dw__login button[type=submit]")?;
    browser.until("document.querySelector('#dokuwiki__usertools .user')")?;
    println!("logged in: {}", browser.value("document.querySelector('.user').innerText")?);
    browser.go(&page("&do=edit"))?;
    browser.until("document.querySelector('#wiki__text')")?;
    browser.type_into("#wiki__text", TEXT)?;
    browser.click("#edbtn__save")?;
    let is_shown =
        "!document.querySelector('#wiki__text') && document.querySelector('.page h1')?.innerText == 'Pearls'";
    browser.until(is_shown)?;
    println!("saved: {}", browser.value("location.pathname + location.search")?);
    // Once more, without the earlier state of the browser.
    browser.go("about:blank")?;
    browser.go(&page(""))?;
    browser.until(is_shown)?;
    browser.until("document.querySelector('.page strong').innerText == 'by hand'")?;
    browser.until("[...document.images].every(image => image.naturalWidth > 0)")?;
    println!("read: {}", browser.value("document.querySelector('.page').innerText")?);
    tools.keep_picture(&mut browser, "dokuwiki")
}

/// Vermeil with the wiki.
struct WikiServer {
    process: Child,
    program: PathBuf,
    control: PathBuf,
    address: SocketAddr,
}

impl WikiServer {
    fn start(program: &Path, wiki: &Wiki) -> Result<Self> {
        let address = free_address()?;
        let control = wiki.folder().join("control");
        let mut command = Command::new(program);
        command.arg("serve").arg(wiki.site()).args(["--php", "--php-children", "4"]);
        command.args(["--log", "off", "--listen", &address.to_string(), "--control"]).arg(&control);
        command.stdin(Stdio::null());
        let process = command.spawn().map_err(Error::path("start", program))?;
        let server = Self { process, program: program.to_owned(), control, address };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            if Instant::now() > deadline {
                return Err(Error::form("vermeil serve", "it does not listen"));
            }
            thread::sleep(LOOK);
        }
        Ok(server)
    }

    /// The status lines about PHP.
    fn status(&self) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.arg("status").arg("--control").arg(&self.control);
        let output = command.output().map_err(Error::path("start", &self.program))?;
        let said = String::from_utf8_lossy(&output.stdout);
        Ok(said.lines().filter(|line| line.contains("php")).collect::<Vec<_>>().join("\n"))
    }
}

impl Drop for WikiServer {
    fn drop(&mut self) {
        // The server removes its files; it ends within its time for draining.
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
    }
}
