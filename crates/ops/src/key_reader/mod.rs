//! The process that opens certificates and private keys for a server that has become another user:
//! usually only the superuser may read private keys.
//!
//! ```text
//! vermeil (as its user, in the sandbox) ── path ──▶ vermeil-keys (as the first user)
//!                                       ◀── descriptor, or why not ──┘
//! ```
//!
//! The server forks the process before it becomes its user. The process opens only files that the
//! configuration names as certificates or keys: the configuration of the start, or the file, which
//! the process reads itself when the file has changed. So a captured server reads the keys of its
//! hosts, as it must, and no other file. Links of other users are followed with care (`open.rs`).
//! Without a change of user the server opens the files itself. Tested through the binary
//! (`crates/e2e/tests/e2e/tls.rs`).

mod open;

use crate::messages::Messages;
use crate::order_line::OrderLine;
use open::open_trusted;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashSet,
    ffi::OsStr,
    fs::File,
    io,
    os::{fd::AsFd as _, unix::ffi::OsStrExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};
use vermeil_config::{GivenParts, ServeOptions, Surroundings};
use vermeil_routing::hosts::Hosts;
use vermeil_spawn::{CompanionProcess, ProcessStartError, fork_beside};
use vermeil_tls::FileSource;

/// How long the process may take to open a file: more than the broker's limit for reading a changed
/// configuration (`broker/process.rs`).
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// Longest reason of a refusal, in bytes, because messages are bounded.
const REASON_BYTES_MAX: usize = 4096;

/// The answer to the order to open a file, which is the path.
#[derive(Debug, Serialize, Deserialize)]
enum KeyAnswer {
    /// The answer has a descriptor.
    Opened,
    Refused {
        why: String,
        /// The number of the system's error, if any.
        code: Option<i32>,
    },
}

/// The server's end of the line. Clones share the line.
#[derive(Clone)]
pub struct KeyReader(Arc<KeyReaderInner>);

struct KeyReaderInner {
    /// `None` once the process has ended.
    line: Mutex<Option<OrderLine>>,
    /// Set until the process was waited for.
    process: Option<CompanionProcess>,
}

impl KeyReader {
    /// Forks the process, if this server speaks TLS and becomes another user. Call this function
    /// before the change of the user, while this process has one thread.
    ///
    /// # Errors
    /// When there are other threads, or the system refuses.
    pub fn start(options: &ServeOptions) -> Result<Option<Self>, ProcessStartError> {
        let stays = options.user.as_ref().is_none_or(|user| user.is_ours());
        if stays || options.tls.listen.is_empty() {
            return Ok(None);
        }
        let (process, socket) =
            fork_beside(c"vermeil-keys", &[], |socket| run(Messages::new(socket), options))?;
        let line = Mutex::new(Some(OrderLine::new(Messages::new(socket))));
        Ok(Some(Self(Arc::new(KeyReaderInner { line, process: Some(process) }))))
    }

    fn ask(&self, path: &Path) -> io::Result<File> {
        let gone = || {
            io::Error::new(
                io::ErrorKind::NotConnected,
                "the process of the keys has ended; restart the server",
            )
        };
        let mut line = self.0.line.lock().expect("nothing panics under this lock");
        match line.as_mut().ok_or_else(gone)?.ask(&path.as_os_str().as_bytes(), ANSWER_PATIENCE) {
            Ok(Some((KeyAnswer::Opened, descriptors))) => {
                descriptors.into_iter().next().map(File::from).ok_or_else(gone)
            }
            Ok(Some((KeyAnswer::Refused { code: Some(code), .. }, _))) => {
                Err(io::Error::from_raw_os_error(code))
            }
            Ok(Some((KeyAnswer::Refused { why, .. }, _))) => Err(io::Error::other(why)),
            Ok(None) => {
                *line = None;
                Err(gone())
            }
            // A slow disk, or a large configuration. The next order may be answered.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                let why = format!("the process of the keys has not opened it for {ANSWER_PATIENCE:?}");
                Err(io::Error::new(error.kind(), why))
            }
            Err(error) => Err(error),
        }
    }
}

impl FileSource for KeyReader {
    fn open(&self, path: &Path) -> io::Result<File> {
        self.ask(path)
    }
}

impl Drop for KeyReaderInner {
    fn drop(&mut self) {
        drop(self.line.get_mut().map(Option::take));
        if let Some(process) = self.process.take() {
            process.wait();
        }
    }
}

/// Opens files until the server closes the line.
fn run(messages: Messages, options: &ServeOptions) {
    let mut line = OrderLine::new(messages);
    let mut names = KeyFiles::of_start(options);
    while let Ok(Some(path)) = line.next_order::<Vec<u8>>() {
        let opened = names.open(Path::new(OsStr::from_bytes(&path)), options);
        let (answer, file) = match opened {
            Ok(file) => (KeyAnswer::Opened, Some(file)),
            Err(error) => {
                let mut why = error.to_string();
                why.truncate(why.floor_char_boundary(REASON_BYTES_MAX));
                (KeyAnswer::Refused { why, code: error.raw_os_error() }, None)
            }
        };
        let descriptors: Vec<_> = file.iter().map(File::as_fd).collect();
        if line.answer(&answer, &descriptors).is_err() {
            return;
        }
    }
}

/// The files that the configuration names, or named since the start: the server goes on with the
/// configuration before if it refuses a new one, which this process does not hear of.
struct KeyFiles {
    named: HashSet<PathBuf>,
    /// The hash of the configuration that was read, with the files that it includes.
    read: Option<u64>,
}

impl KeyFiles {
    fn of_start(options: &ServeOptions) -> Self {
        Self { named: files(&options.hosts), read: None }
    }

    fn open(&mut self, path: &Path, options: &ServeOptions) -> io::Result<File> {
        if !self.named.contains(path) {
            self.learn(options)?;
        }
        if !self.named.contains(path) {
            return Err(io::Error::other("the configuration does not name this file"));
        }
        open_trusted(path)
    }

    /// Reads the configuration file, if the file has changed.
    fn learn(&mut self, options: &ServeOptions) -> io::Result<()> {
        let Some(file) = &options.file else { return Ok(()) };
        let text = vermeil_config::text_of(file).map_err(|error| io::Error::other(error.to_string()))?;
        let now = text.fingerprint();
        if self.read == Some(now) {
            return Ok(());
        }
        let around = Surroundings::here().map_err(io::Error::other)?;
        // The cpus of an instance are decided already, and nothing here depends on them.
        let around = Surroundings { given: GivenParts::Instances(options.instances.clone()), ..around };
        let new = vermeil_config::take(file, &text, &around)
            .map_err(|error| io::Error::other(error.to_string()))?;
        self.named.extend(files(&new.hosts));
        self.read = Some(now);
        Ok(())
    }
}

fn files(hosts: &Hosts) -> HashSet<PathBuf> {
    hosts.all_certificates().flat_map(|(_, host)| host.files()).map(Path::to_owned).collect()
}
