//! The destination of the access log: standard output, a daemon (`datagram.rs`), or a file that may
//! be renamed at any time (`named.rs`).
//!
//! Owns the descriptor, and makes sure that a write does not hang on a pipe without a reader.
//! Lines, retries and counts are in `writer.rs`. An inherited pipe (standard output) must not
//! become non-blocking, because the flag would change for all processes that share the pipe. So the
//! sink polls before each write, and writes at most what the pipe takes in one piece. Tested in
//! `tests.rs` through the whole log.

use super::Notices;
use super::datagram::{DatagramSink, LogProtocol};
use super::named::{LogFolder, NamedFile};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Seek as _, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, SystemTime};
use vermeil_io::output::Output;

/// Mode of a new log file: requests concern the operator and the operator's group.
const FILE_MODE: u32 = 0o640;
/// A pipe that polls as writable takes this many bytes without blocking (`PIPE_BUF` in pipe(7)).
const PIPE_BYTES: usize = 4096;

/// Result of a write.
#[derive(Debug)]
pub(super) enum SinkProgress {
    /// Number of bytes written, at least one.
    Wrote(usize),
    /// No reader takes the bytes now.
    Stuck,
    /// The reader is gone for good.
    Gone,
    /// The write failed; another write may succeed.
    Failed(io::Error),
}

/// Opens a log file for appending, and creates it if missing. Never waits for the reader of a FIFO;
/// a missing reader is the error `ENXIO`.
///
/// # Errors
/// The error of the system call.
pub(crate) fn open_log_file(path: &Path) -> io::Result<File> {
    Output::append().mode(FILE_MODE).open(path)
}

/// The open end of the log.
#[derive(Debug)]
pub(super) enum LogSink {
    /// A descriptor shared with other processes, for example standard output. No path leads to it.
    Inherited(LogFile),
    /// A file that has a path.
    Named(NamedFile),
    /// A daemon keeps the log.
    Daemon(DatagramSink),
    /// Only hosts have logs.
    Nowhere,
}

/// An open file of a log.
#[derive(Debug)]
pub(super) struct LogFile {
    file: File,
    /// Whether to poll before each write.
    may_block: bool,
}

impl AsFd for LogFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl LogFile {
    pub(super) fn new(file: File) -> io::Result<Self> {
        let may_block = !file.metadata()?.is_file();
        Ok(Self { file, may_block })
    }

    pub(super) fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    /// Whether this is no regular file.
    pub(super) fn may_block(&self) -> bool {
        self.may_block
    }

    /// The time of the last line; now for an empty file.
    pub(super) fn last_written(&self) -> SystemTime {
        let found = self.file.metadata().ok().filter(|found| found.len() > 0);
        found.and_then(|found| found.modified().ok()).unwrap_or_else(SystemTime::now)
    }

    /// Writes some of `bytes`. `None` if no reader takes the bytes within `wait`.
    pub(super) fn write(&mut self, bytes: &[u8], wait: Duration) -> Option<io::Result<usize>> {
        if !self.may_block {
            return Some(self.file.write(bytes));
        }
        is_writable(&self.file, wait).then(|| self.file.write(in_one_piece(bytes)))
    }

    /// Removes the last `count` bytes written to a file, unless another process has written since.
    /// Returns whether the removal worked.
    pub(super) fn take_back(&mut self, count: usize) -> bool {
        if count == 0 || self.may_block {
            return false;
        }
        let file = &mut self.file;
        let taken = file.stream_position().and_then(|end| {
            let is_last = file.metadata()?.len() == end;
            match end.checked_sub(count as u64).filter(|_| is_last) {
                Some(start) => file.set_len(start).map(|()| true),
                None => Ok(false),
            }
        });
        taken.unwrap_or(false)
    }
}

impl LogSink {
    pub(super) fn stdout() -> io::Result<Self> {
        Self::inherited(io::stdout().as_fd().try_clone_to_owned()?)
    }

    /// A sink on a descriptor shared with other processes.
    pub(super) fn inherited(end: OwnedFd) -> io::Result<Self> {
        LogFile::new(File::from(end)).map(Self::Inherited)
    }

    /// Opens `path` for appending. A FIFO without a reader is no error, because the sink opens it
    /// later.
    pub(super) fn file(path: &Path, folder: LogFolder) -> io::Result<Self> {
        let mut file = NamedFile::new(path, folder);
        match file.reopen() {
            Err(error) if Errno::from_io_error(&error) != Some(Errno::NXIO) => Err(error),
            _ => Ok(Self::Named(file)),
        }
    }

    /// A sink to the daemon whose socket is `path`. The daemon need not run yet.
    pub(super) fn daemon(path: &Path, protocol: LogProtocol) -> io::Result<Self> {
        DatagramSink::new(path, protocol).map(Self::Daemon)
    }

    /// Opens the path again. On failure the old file stays. Does nothing for a sink without a path.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if let Self::Named(file) = self { file.reopen() } else { Ok(()) }
    }

    pub(super) fn is_open(&self) -> bool {
        !matches!(self, Self::Named(NamedFile { open: None, .. }))
    }

    /// Whether the path no longer names the open file.
    pub(super) fn has_moved(&mut self) -> bool {
        if let Self::Named(file) = self { file.has_moved() } else { false }
    }

    /// Rotates the file if that is due.
    pub(super) fn rotate_if_due(&mut self, notices: &Notices) {
        if let Self::Named(file) = self {
            file.rotate_if_due(notices);
        }
    }

    /// Writes some of `bytes`, which must not be empty; waits at most `wait` for a reader.
    pub(super) fn write(&mut self, bytes: &[u8], wait: Duration) -> SinkProgress {
        let written = match self {
            Self::Daemon(daemon) => Some(daemon.write(bytes, wait)),
            Self::Inherited(open) | Self::Named(NamedFile { open: Some(open), .. }) => {
                open.write(bytes, wait)
            }
            Self::Named(NamedFile { open: None, .. }) => Some(Err(io::ErrorKind::NotConnected.into())),
            Self::Nowhere => Some(Ok(bytes.len())),
        };
        match written {
            None => SinkProgress::Stuck,
            Some(Ok(0)) => SinkProgress::Failed(io::ErrorKind::WriteZero.into()),
            Some(Ok(written)) => SinkProgress::Wrote(written),
            Some(Err(error)) => self.failed(error),
        }
    }

    /// Removes the last `count` bytes written to a file, as [`LogFile::take_back`].
    pub(super) fn take_back(&mut self, count: usize) -> bool {
        match self {
            Self::Inherited(open) | Self::Named(NamedFile { open: Some(open), .. }) => open.take_back(count),
            _ => false,
        }
    }

    fn failed(&mut self, error: io::Error) -> SinkProgress {
        match (error.kind(), self) {
            (io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock, _) => SinkProgress::Stuck,
            (io::ErrorKind::BrokenPipe, Self::Inherited(_)) => SinkProgress::Gone,
            (io::ErrorKind::BrokenPipe, Self::Named(NamedFile { open, .. })) => {
                // The next reader of the FIFO needs a new descriptor.
                *open = None;
                SinkProgress::Failed(error)
            }
            _ => SinkProgress::Failed(error),
        }
    }
}

impl fmt::Display for LogSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(file) => write!(f, "the access log {}", file.path.display()),
            Self::Nowhere => f.write_str("the access log"),
            Self::Daemon(daemon) => daemon.fmt(f),
            Self::Inherited(_) => f.write_str("the access log on standard output"),
        }
    }
}

/// As many whole lines as a pipe takes in one piece, so that lines of several processes do not mix.
/// Of a longer line, as much as the pipe takes.
fn in_one_piece(bytes: &[u8]) -> &[u8] {
    let piece = &bytes[..bytes.len().min(PIPE_BYTES)];
    match piece.iter().rposition(|byte| *byte == b'\n') {
        Some(end) => &piece[..=end],
        None => piece,
    }
}

/// An error counts as writable, because the write reports the error.
fn is_writable(file: &File, wait: Duration) -> bool {
    let timeout = Timespec::try_from(wait).expect("a wait is seconds at most");
    !matches!(poll(&mut [PollFd::new(file, PollFlags::OUT)], Some(&timeout)), Ok(0))
}

#[cfg(test)]
mod tests {
    use super::super::named::OwnAccess;
    use super::*;
    use std::sync::Arc;

    #[test]
    fn half_a_record_is_taken_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut sink =
            LogSink::file(&path, LogFolder { access: Arc::new(OwnAccess), rotation: None }).expect("opened");
        assert!(matches!(sink.write(b"whole\nhal", Duration::ZERO), SinkProgress::Wrote(9)));
        assert!(sink.take_back(3));
        assert_eq!(std::fs::read(&path).expect("read"), b"whole\n");
        assert!(matches!(sink.write(b"half\n", Duration::ZERO), SinkProgress::Wrote(5)));
        assert!(!sink.take_back(0));
        let mut other =
            LogSink::file(&path, LogFolder { access: Arc::new(OwnAccess), rotation: None }).expect("opened");
        assert!(matches!(other.write(b"other\n", Duration::ZERO), SinkProgress::Wrote(6)));
        assert!(!sink.take_back(5), "another process has written behind");
        assert_eq!(std::fs::read(&path).expect("read"), b"whole\nhalf\nother\n");
    }
}
