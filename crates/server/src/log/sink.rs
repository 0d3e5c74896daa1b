//! The destination of the access log: standard output, a daemon (`datagram.rs`), or a file that may
//! be renamed at any time.
//!
//! Owns the descriptor, and makes sure that a write does not hang on a pipe without a reader.
//! Lines, retries and counts are in `writer.rs`. An inherited pipe (standard output) must not
//! become non-blocking, because the flag would change for all processes that share the pipe. So the
//! sink polls before each write, and writes at most what the pipe takes in one piece. Tested in
//! `tests.rs` through the whole log.

use super::datagram::{DatagramSink, LogProtocol};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fmt;
use std::fs::File;
use std::io::{self, Seek as _, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
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

/// Opens the file of a log.
type OpenLog = dyn Fn(&Path) -> io::Result<File> + Send + Sync;

/// How a log file is opened: by this process, or by another process where a sandbox forbids it.
#[derive(Clone)]
pub(crate) struct Opener(Arc<OpenLog>);

impl Opener {
    pub(crate) fn new(open: impl Fn(&Path) -> io::Result<File> + Send + Sync + 'static) -> Self {
        Self(Arc::new(open))
    }
}

impl Default for Opener {
    fn default() -> Self {
        Self::new(open_log_file)
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opener")
    }
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
    /// A file that has a path; `open` is `None` while the file cannot be opened.
    Named { path: PathBuf, opener: Opener, open: Option<LogFile> },
    /// A daemon keeps the log.
    Daemon(DatagramSink),
}

/// An open file of a log.
#[derive(Debug)]
pub(super) struct LogFile {
    file: File,
    /// Whether to poll before each write.
    may_block: bool,
}

impl LogFile {
    fn new(file: File) -> io::Result<Self> {
        let may_block = !file.metadata()?.is_file();
        Ok(Self { file, may_block })
    }

    /// Writes some of `bytes`. `None` if no reader takes the bytes within `wait`.
    fn write(&mut self, bytes: &[u8], wait: Duration) -> Option<io::Result<usize>> {
        if !self.may_block {
            return Some(self.file.write(bytes));
        }
        is_writable(&self.file, wait).then(|| self.file.write(in_one_piece(bytes)))
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
    pub(super) fn file(path: &Path, opener: Opener) -> io::Result<Self> {
        let mut sink = Self::Named { path: path.to_owned(), opener, open: None };
        match sink.reopen() {
            Err(error) if Errno::from_io_error(&error) != Some(Errno::NXIO) => Err(error),
            _ => Ok(sink),
        }
    }

    /// A sink to the daemon whose socket is `path`. The daemon need not run yet.
    pub(super) fn daemon(path: &Path, protocol: LogProtocol) -> io::Result<Self> {
        DatagramSink::new(path, protocol).map(Self::Daemon)
    }

    /// Opens the path again. On failure the old file stays. Does nothing for a sink without a path.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if let Self::Named { path, opener, open } = self {
            *open = Some(LogFile::new((opener.0)(path)?)?);
        }
        Ok(())
    }

    pub(super) fn is_open(&self) -> bool {
        !matches!(self, Self::Named { open: None, .. })
    }

    /// Whether the path no longer names the open file, because the file was renamed, removed or
    /// replaced.
    pub(super) fn has_moved(&self) -> bool {
        let Self::Named { path, open: Some(open), .. } = self else { return false };
        match (std::fs::metadata(path), open.file.metadata()) {
            (Ok(named), Ok(open)) => (named.dev(), named.ino()) != (open.dev(), open.ino()),
            (Err(error), _) => error.kind() == io::ErrorKind::NotFound,
            (_, Err(_)) => false,
        }
    }

    /// Writes some of `bytes`, which must not be empty; waits at most `wait` for a reader.
    pub(super) fn write(&mut self, bytes: &[u8], wait: Duration) -> SinkProgress {
        let written = match self {
            Self::Daemon(daemon) => Some(daemon.write(bytes, wait)),
            Self::Inherited(open) | Self::Named { open: Some(open), .. } => open.write(bytes, wait),
            Self::Named { open: None, .. } => Some(Err(io::ErrorKind::NotConnected.into())),
        };
        match written {
            None => SinkProgress::Stuck,
            Some(Ok(0)) => SinkProgress::Failed(io::ErrorKind::WriteZero.into()),
            Some(Ok(written)) => SinkProgress::Wrote(written),
            Some(Err(error)) => self.failed(error),
        }
    }

    /// Removes the last `count` bytes written to a file, unless another process has written since.
    /// Returns whether the removal worked.
    pub(super) fn take_back(&mut self, count: usize) -> bool {
        let (Self::Inherited(open) | Self::Named { open: Some(open), .. }) = self else { return false };
        if count == 0 || open.may_block {
            return false;
        }
        let file = &mut open.file;
        let taken = file.stream_position().and_then(|end| {
            let is_last = file.metadata()?.len() == end;
            match end.checked_sub(count as u64).filter(|_| is_last) {
                Some(start) => file.set_len(start).map(|()| true),
                None => Ok(false),
            }
        });
        taken.unwrap_or(false)
    }

    fn failed(&mut self, error: io::Error) -> SinkProgress {
        match (error.kind(), self) {
            (io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock, _) => SinkProgress::Stuck,
            (io::ErrorKind::BrokenPipe, Self::Inherited(_)) => SinkProgress::Gone,
            (io::ErrorKind::BrokenPipe, Self::Named { open, .. }) => {
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
            Self::Named { path, .. } => write!(f, "the access log {}", path.display()),
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
    use super::*;

    #[test]
    fn half_a_record_is_taken_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut sink = LogSink::file(&path, Opener::default()).expect("opened");
        assert!(matches!(sink.write(b"whole\nhal", Duration::ZERO), SinkProgress::Wrote(9)));
        assert!(sink.take_back(3));
        assert_eq!(std::fs::read(&path).expect("read"), b"whole\n");
        assert!(matches!(sink.write(b"half\n", Duration::ZERO), SinkProgress::Wrote(5)));
        assert!(!sink.take_back(0));
        let mut other = LogSink::file(&path, Opener::default()).expect("opened");
        assert!(matches!(other.write(b"other\n", Duration::ZERO), SinkProgress::Wrote(6)));
        assert!(!sink.take_back(5), "another process has written behind");
        assert_eq!(std::fs::read(&path).expect("read"), b"whole\nhalf\nother\n");
    }
}
