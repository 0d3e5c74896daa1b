//! `cargo xtask test dokuwiki`: a real application in PHP, used through a real browser.
//!
//! Vermeil serves DokuWiki (`vermeil_bench::dokuwiki`) with a separate pool. Chromium logs in,
//! writes a page, saves the page, and reads the page again, clicking and typing like a person.
//! Leaves a picture of the page behind. If a package or the browser is not available, the test is
//! skipped with a notice. `dokuwiki/browser.rs` drives the browser.

mod browser;

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use vermeil_bench::dokuwiki::{USER, Wiki};
use vermeil_bench::peers::find_program;

use crate::error::{Error, Result};
use crate::packages;
use crate::steps::run_command;
use crate::workspace::{Workspace, cargo};
use browser::Browser;

/// Maximum time until the server listens.
const PATIENCE: Duration = Duration::from_secs(60);

/// Interval of the checks whether the server listens.
const LOOK: Duration = Duration::from_millis(20);

/// The text of the page.
const TEXT: &str = "====== Pearls ======\n\nWritten **by hand** in a browser.";

/// Runs the command.
pub(crate) fn run() -> Result<()> {
    let workspace = Workspace::load()?;
    let wiki = match prepare() {
        Ok(wiki) => wiki,
        Err(why) => {
            println!("\n******** SKIPPED: the wiki or its browser cannot be had: {why} ********\n");
            return Ok(());
        }
    };
    run_command(cargo().args(["build", "--package", "vermeil-cli"]).current_dir(&workspace.root))?;
    let server = WikiServer::start(&workspace.target.join("debug/vermeil"), &wiki)?;
    let browser = find_program("chromium").ok_or_else(|| Error::form("chromium", "is not here"))?;
    let picture = workspace.target.join("dokuwiki.png");
    use_it(&server, &browser, &wiki, &picture)?;
    println!("{}", server.status()?);
    println!("a picture of the page: {}", picture.display());
    Ok(())
}

/// The wiki, after the programs that use it.
fn prepare() -> Result<Wiki> {
    packages::install_browser()?;
    for program in ["chromium", "php-fpm8.2"] {
        find_program(program).ok_or_else(|| Error::form(program, "is not here"))?;
    }
    Ok(Wiki::prepare()?)
}

/// Logs in, writes a page, saves it and reads it again.
fn use_it(server: &WikiServer, program: &Path, wiki: &Wiki, picture: &Path) -> Result<()> {
    let mut browser = Browser::start(program, &wiki.folder().join("browser"))?;
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
    let base64 = wiki.folder().join("picture");
    fs::write(&base64, browser.picture()?).map_err(Error::path("write", &base64))?;
    let file = File::create(picture).map_err(Error::path("create", picture))?;
    run_command(Command::new("base64").arg("-d").arg(&base64).stdout(file))
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
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let address = free.map_err(Error::path("find a port on", Path::new("127.0.0.1")))?;
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
