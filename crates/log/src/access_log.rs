//! The access log as a whole: start, thread and end.
//!
//! Times are arguments, except on the log thread. Tested in `access_log/tests.rs` against files,
//! FIFOs and `/dev/full`.

use crate::{
    batch::{BATCH_BYTES, CoreLog, LogMessage},
    datagram::LogProtocol,
    host_files::HostFiles,
    named::{LogAccess, LogFolder, OwnAccess},
    notices::{NoticeKind, Notices},
    options::LogOptions,
    shared::{LogCounts, LogShared, LogTimeouts},
    sink::LogSink,
    target::LogTarget,
    writer::LogWriter,
};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, SyncSender};
use std::thread;
use std::time::{Duration, Instant};
use vermeil_spawn::user_name;

#[cfg(test)]
mod tests;

/// Batches that may wait for the log thread, for each core. With
/// [`BATCH_BYTES`](crate::BATCH_BYTES) this bounds the waiting memory at 512 KiB for each core. At
/// 200,000 requests a second and 200 bytes a record, a core fills eight batches in 13 ms, and on a
/// healthy disk the log thread returns to its queue sooner. As many bytes of text may wait for a
/// common log that cannot be written.
pub const BATCHES_WAITING_PER_CORE: usize = 8;

/// Time after the log thread's own limit at which it counts as hung in a write that the kernel does
/// not finish (a dead network disk). The thread looks at its own limit a hundred times per second
/// (`writer.rs`), so a thread that is only late ends before.
const HUNG_AFTER: Duration = Duration::from_secs(1);

/// The access log cannot start.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be opened for appending.
    #[error("cannot open the access log {}: {source}; choose another with --log FILE or the key `log`, or turn it off", path.display())]
    Open {
        /// The file asked for.
        path: PathBuf,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The file cannot be renamed.
    #[error(
        "cannot rotate the access log {}: {source} in its folder; give the folder to the server's user, or leave rotate_bytes and rotate_every in [log_files] out",
        path.display()
    )]
    Rotate {
        /// The file of the log.
        path: PathBuf,
        /// Error of the kernel.
        source: io::Error,
    },
    /// Standard output cannot be duplicated.
    #[error(
        "cannot write the access log to standard output: {0}; choose a file with --log FILE or the key `log`, or turn it off"
    )]
    Stdout(io::Error),
    /// No socket can be made.
    #[error(
        "cannot make a socket for the access log: {0}; raise the limit of open files, or choose a file with --log FILE"
    )]
    Socket(io::Error),
    /// The log thread cannot be started.
    #[error("cannot start the log thread: {0}; raise the limit of processes, or run with --log off")]
    Thread(io::Error),
}

/// Checks that this user may rename files beside the log. The moment is right, because a server
/// opens its log as the user that the server stays.
fn may_rotate(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match access(folder, Access::WRITE_OK | Access::EXEC_OK) {
        Err(error @ (Errno::ACCESS | Errno::ROFS)) => Err(error.into()),
        // A sandbox may forbid the question.
        _ => Ok(()),
    }
}

/// Looks whether this thread may write the file of `options` as a log that starts, without making
/// the file. If the file is missing, the superuser makes it for another user, and this thread only
/// has to reach it.
///
/// # Errors
/// As [`Log::start`].
pub fn look_at_file(options: &LogOptions, maker: LogMaker) -> Result<(), LogError> {
    let Some(path) = options.file() else { return Ok(()) };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let looked = match access(path, Access::WRITE_OK) {
        Err(Errno::NOENT) if maker == LogMaker::Superuser => access(folder, Access::EXEC_OK),
        Err(Errno::NOENT) => access(folder, Access::WRITE_OK | Access::EXEC_OK),
        looked => looked,
    };
    looked
        .map_err(|errno| LogError::Open { path: path.to_owned(), source: with_owner(path, errno.into()) })?;
    match options.rotation {
        Some(_) => may_rotate(path).map_err(|source| LogError::Rotate { path: path.to_owned(), source }),
        None => Ok(()),
    }
}

/// The user that makes a missing file of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogMaker {
    /// The superuser, for the user that the server becomes.
    Superuser,
    /// The user of the server.
    Server,
}

/// Adds the owner of the file or of its folder if that explains the failure.
fn with_owner(path: &Path, error: io::Error) -> io::Error {
    let is_denied = error.raw_os_error() == Some(rustix::io::Errno::ACCESS.raw_os_error());
    let ours = rustix::process::geteuid().as_raw();
    match std::fs::metadata(path).map(|found| (found.uid(), found.is_file())) {
        // `chown` changes no pipe or terminal for good, for example behind a link to /dev/stdout.
        Ok((owner, false)) if is_denied && owner != ours => {
            let (owner, us) = (user_name(owner), user_name(ours));
            let words = format!(
                "{error}, because it leads to a pipe, a terminal or a device of user {owner}, and the server is user \
                 {us}; for standard output write --log - or log = \"-\""
            );
            io::Error::new(error.kind(), words)
        }
        Ok((owner, true)) if is_denied && owner != ours => {
            let (owner, us, path) = (user_name(owner), user_name(ours), path.display());
            let words = format!(
                "{error}, because it belongs to user {owner} and the server is user {us}; give it away with `chown {us} {path}`"
            );
            io::Error::new(error.kind(), words)
        }
        Err(_) if is_denied => {
            let us = user_name(ours);
            let folder = path.parent().unwrap_or(path).display();
            let words = format!(
                "{error}, because user {us}, which the server is, may not enter or write in {folder}; let the user do so, \
                 for example with `chown {us} {folder}`"
            );
            io::Error::new(error.kind(), words)
        }
        _ => error,
    }
}

/// The access log: owns the log thread. Made before the cores, closed after them.
///
/// ```
/// use std::sync::Arc;
/// use vermeil_log::{Log, LogTarget, Notices};
///
/// let log = Log::start(&LogTarget::Off, 2, Arc::new(Notices::stderr()))?;
/// let on_core_0 = log.core();
/// drop(on_core_0);
/// assert_eq!(log.close().dropped, 0);
/// # Ok::<(), vermeil_log::LogError>(())
/// ```
#[derive(Debug)]
pub struct Log {
    thread: Option<LogThread>,
    shared: Arc<LogShared>,
    notices: Arc<Notices>,
}

#[derive(Debug)]
struct LogThread {
    messages: SyncSender<LogMessage>,
    handle: thread::JoinHandle<()>,
}

impl Log {
    /// Opens `target` and starts the log thread for `cores` cores; with [`LogTarget::Off`] there is
    /// no thread.
    ///
    /// Call it from a thread that is not pinned: the log thread inherits the cpus it may run on.
    ///
    /// # Errors
    /// The file cannot be opened, or no thread can be started. A FIFO without a reader is no error,
    /// because the log thread tries again.
    pub fn start(target: &LogTarget, cores: usize, notices: Arc<Notices>) -> Result<Self, LogError> {
        let options = LogOptions { target: target.clone(), ..LogOptions::default() };
        Self::start_by(Arc::new(OwnAccess), &options, cores, notices)
    }

    /// Like [`start`](Self::start), with all options, and for a process that must not open files
    /// itself.
    pub fn start_by(
        access: Arc<dyn LogAccess>,
        options: &LogOptions,
        cores: usize,
        notices: Arc<Notices>,
    ) -> Result<Self, LogError> {
        Self::start_with(options, cores, notices, LogTimeouts::USUAL, access)
    }

    fn start_with(
        options: &LogOptions,
        cores: usize,
        notices: Arc<Notices>,
        patience: LogTimeouts,
        access: Arc<dyn LogAccess>,
    ) -> Result<Self, LogError> {
        let shared = LogShared::new(patience, options);
        let folder = LogFolder { access, rotation: options.rotation };
        let sink = match &options.target {
            LogTarget::Off if options.hosts_have_files => LogSink::Nowhere,
            LogTarget::Off => return Ok(Self { thread: None, shared, notices }),
            LogTarget::Stdout => LogSink::stdout().map_err(LogError::Stdout)?,
            LogTarget::Syslog(path) => {
                LogSink::daemon(path, LogProtocol::Syslog).map_err(LogError::Socket)?
            }
            LogTarget::Journald(path) => {
                LogSink::daemon(path, LogProtocol::Journald).map_err(LogError::Socket)?
            }
            LogTarget::File(path) => LogSink::file(path, folder.clone())
                .map_err(|source| LogError::Open { path: path.clone(), source: with_owner(path, source) })?,
        };
        if let (Some(path), Some(_)) = (options.file(), options.rotation) {
            may_rotate(path).map_err(|source| LogError::Rotate { path: path.to_owned(), source })?;
        }
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let hosts = HostFiles::new(folder, options.host_files_open_max_within(limit), patience.retry);
        Self::start_sink(sink, hosts, cores, notices, shared)
    }

    fn start_sink(
        sink: LogSink,
        hosts: HostFiles,
        cores: usize,
        notices: Arc<Notices>,
        shared: Arc<LogShared>,
    ) -> Result<Self, LogError> {
        let batches = cores.max(1) * BATCHES_WAITING_PER_CORE;
        let (messages, inbox) = mpsc::sync_channel(batches);
        let text_bytes_max = batches * BATCH_BYTES;
        let writer = LogWriter::new(sink, hosts, inbox, shared.clone(), notices.clone(), text_bytes_max);
        let handle = thread::Builder::new()
            .name("vermeil-log".to_owned())
            .spawn(move || writer.run())
            .map_err(LogError::Thread)?;
        Ok(Self { thread: Some(LogThread { messages, handle }), shared, notices })
    }

    /// One core's end of the log.
    pub fn core(&self) -> CoreLog {
        match &self.thread {
            Some(thread) => CoreLog::new(thread.messages.clone(), self.shared.clone()),
            None => CoreLog::off(),
        }
    }

    /// Opens the file again before the next line, so that a rotated log goes on in a new file.
    /// Returns at once.
    pub fn reopen(&self) {
        if let Some(thread) = &self.thread {
            // Pairs with the swap in `LogWriter::tend`.
            self.shared.reopen.store(true, Ordering::Release);
            wake(thread);
        }
    }

    /// Counts of the records so far.
    pub fn counts(&self) -> LogCounts {
        self.shared.counts()
    }

    /// Writes all records that the cores handed over, and ends the log thread.
    ///
    /// Drop every [`CoreLog`] first, because dropping hands its records over. If the log cannot be
    /// written, the remaining records are dropped, counted and reported. A reader or a disk that
    /// does not answer delays `close` by two seconds, three at most.
    pub fn close(mut self) -> LogCounts {
        if let Some(thread) = self.thread.take() {
            // Pairs with the load in `LogWriter::is_closing`.
            self.shared.closing.store(true, Ordering::Release);
            wake(&thread);
            drop(thread.messages);
            let wait = self.shared.patience.close + HUNG_AFTER;
            let ended = wait_until(wait, || thread.handle.is_finished());
            if !ended || thread.handle.join().is_err() {
                self.notices.say(
                    NoticeKind::LogTrouble,
                    format_args!("the access log did not end: its last lines may be missing"),
                );
            }
        }
        self.notices.say_rest();
        self.shared.counts()
    }
}

/// Wakes the log thread. A full channel needs no message, because a busy log thread checks the
/// requests anyway.
fn wake(thread: &LogThread) {
    let _ = thread.messages.try_send(LogMessage::Wake);
}

/// Polls `done` every millisecond for at most `wait`.
fn wait_until(wait: Duration, done: impl Fn() -> bool) -> bool {
    let end = Instant::now() + wait;
    while !done() {
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}
