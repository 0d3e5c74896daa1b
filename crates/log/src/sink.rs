//! The destination of the access log: standard output, a daemon (`datagram.rs`), or a file that may
//! be renamed at any time (`named.rs`).
//!
//! Owns the descriptor (`log_file.rs`). Lines, retries and counts are in `writer.rs`. Tested in
//! `access_log/tests.rs` through the whole log.

use crate::datagram::{DatagramSink, LogProtocol};
use crate::log_file::LogFile;
use crate::named::{LogFolder, NamedFile};
use crate::notices::Notices;
use rustix::io::Errno;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named::OwnAccess;
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

    /// Regression: NUL bytes took the place of the half record, if the shell had redirected
    /// standard output with `>`.
    #[test]
    fn record_after_half_record_leaves_no_gap() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut sink = LogSink::inherited(File::create(&path).expect("created").into()).expect("a sink");
        assert!(matches!(sink.write(b"whole\nhal", Duration::ZERO), SinkProgress::Wrote(9)));
        assert!(sink.take_back(3));
        assert!(matches!(sink.write(b"half\n", Duration::ZERO), SinkProgress::Wrote(5)));
        assert_eq!(std::fs::read(&path).expect("read"), b"whole\nhalf\n");
    }
}
