//! A log file that has a path: opened, opened again after a rename, and rotated.
//!
//! Owns the descriptor and the moment of each look at the path. Leaves out lines and retries
//! (`writer.rs`, `host_files.rs`) and the renames of a rotation (`rotation.rs`). Tested in
//! `access_log/tests.rs` through the whole log.

use super::log_file::{LogFile, open_log_file};
use super::notices::{NoticeKind, Notices};
use super::rotation::{self, LogFileId, ROTATION_GAP, Rotation};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Interval of checks whether the path still names the open file, while lines are written. A later
/// check loses no line, because the lines go to the old file; a check is one system call per
/// second.
const MOVE_CHECK: Duration = Duration::from_secs(1);

/// The access to log files: by this process, or by another process where a sandbox forbids it.
pub trait LogAccess: Send + Sync {
    /// Opens a log file for appending, and creates it if missing. Never waits for the reader of a
    /// FIFO; a missing reader is the error `ENXIO`.
    ///
    /// # Errors
    /// The error of the system call.
    fn open(&self, path: &Path) -> io::Result<File>;

    /// Rotates the file at `path`, as [`rotation::rotate`].
    ///
    /// # Errors
    /// As [`rotation::rotate`].
    fn rotate(&self, path: &Path, file: LogFileId, rotation: &Rotation) -> io::Result<bool>;
}

/// The access of this process itself.
#[derive(Clone, Copy, Debug)]
pub struct OwnAccess;

impl LogAccess for OwnAccess {
    fn open(&self, path: &Path) -> io::Result<File> {
        open_log_file(path)
    }

    fn rotate(&self, path: &Path, file: LogFileId, rotation: &Rotation) -> io::Result<bool> {
        rotation::rotate(path, file, rotation.kept)
    }
}

/// How log files are opened and rotated.
#[derive(Clone)]
pub(super) struct LogFolder {
    pub(super) access: Arc<dyn LogAccess>,
    pub(super) rotation: Option<Rotation>,
}

impl std::fmt::Debug for LogFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LogFolder").field(&self.rotation).finish()
    }
}

/// A log file with a path.
#[derive(Debug)]
pub(super) struct NamedFile {
    pub(super) path: PathBuf,
    folder: LogFolder,
    /// `None` while the file cannot be opened.
    pub(super) open: Option<LogFile>,
    /// The period of the oldest lines in the file.
    period: Option<u64>,
    /// The last opening of a file in the place of another, or the last attempt to rotate.
    settled: Instant,
    move_checked: Instant,
}

impl NamedFile {
    /// A file that is not open yet.
    pub(super) fn new(path: &Path, folder: LogFolder) -> Self {
        let now = Instant::now();
        let path = path.to_owned();
        // A file that was closed for others may be due at its first line.
        let settled = now.checked_sub(ROTATION_GAP).unwrap_or(now);
        Self { path, folder, open: None, period: None, settled, move_checked: now }
    }

    /// Opens the path again. On failure the old file stays.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        let file = LogFile::new(self.folder.access.open(&self.path)?)?;
        self.period = self.folder.rotation.and_then(|rotation| rotation.period(file.last_written()));
        // Another process may have rotated the file a moment ago.
        if self.open.replace(file).is_some() {
            self.settled = Instant::now();
        }
        Ok(())
    }

    /// Whether the path no longer names the open file, because the file was renamed, removed or
    /// replaced. Looks once a second.
    pub(super) fn has_moved(&mut self) -> bool {
        if self.move_checked.elapsed() < MOVE_CHECK {
            return false;
        }
        self.move_checked = Instant::now();
        let Some(open) = &self.open else { return false };
        match (std::fs::metadata(&self.path), open.metadata()) {
            (Ok(named), Ok(open)) => (named.dev(), named.ino()) != (open.dev(), open.ino()),
            (Err(error), _) => error.kind() == io::ErrorKind::NotFound,
            (_, Err(_)) => false,
        }
    }

    /// Rotates the file if that is due, and opens the new file. Lines go on in the same file if
    /// that fails.
    pub(super) fn rotate_if_due(&mut self, notices: &Notices) {
        if let Err(error) = self.try_rotate() {
            let path = self.path.display();
            let line = format_args!(
                "cannot rotate the access log {path}: {error}; its lines go on in the same file (may the server's user write in the folder?)"
            );
            notices.say(NoticeKind::LogTrouble, line);
        }
    }

    fn try_rotate(&mut self) -> io::Result<()> {
        let (Some(rotation), Some(open)) = (self.folder.rotation, &self.open) else { return Ok(()) };
        if open.may_block() || self.settled.elapsed() < ROTATION_GAP {
            return Ok(());
        }
        let found = rustix::fs::fstat(open)?;
        let period = rotation.period(SystemTime::now());
        if found.st_size == 0 {
            self.period = period;
            return Ok(());
        }
        // A clock that was set back begins no period.
        let is_new_period = period > self.period;
        if !is_new_period && !rotation.is_full(found.st_size.unsigned_abs()) {
            return Ok(());
        }
        self.settled = Instant::now();
        self.folder.access.rotate(&self.path, LogFileId::of(&found), &rotation)?;
        // If another process has rotated the file, the new file is there too.
        self.reopen()
    }
}
