//! An open file of a log, or a pipe.
//!
//! Makes sure that a write does not hang on a pipe without a reader. An inherited pipe (standard
//! output) must not become non-blocking, because the flag would change for all processes that share
//! the pipe. So a write polls before, and takes at most what the pipe takes in one piece. Tested
//! through the whole log, in `access_log/tests.rs`.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::{File, Metadata};
use std::io::{self, Seek as _, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, SystemTime};
use vermeil_io::output::Output;

/// Mode of a new log file: requests concern the operator and the operator's group.
const FILE_MODE: u32 = 0o640;

/// A pipe that polls as writable takes this many bytes without blocking (`PIPE_BUF` in pipe(7)).
pub(super) const PIPE_BYTES: usize = 4096;

/// Opens a log file for appending, and creates it if missing. Never waits for the reader of a FIFO;
/// a missing reader is the error `ENXIO`.
///
/// # Errors
/// The error of the system call.
pub fn open_log_file(path: &Path) -> io::Result<File> {
    Output::append().mode(FILE_MODE).open(path)
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
                Some(start) => {
                    file.set_len(start)?;
                    // The shell may have opened the file without `O_APPEND`. The next write would
                    // leave a gap of NUL bytes.
                    file.seek(SeekFrom::Start(start)).map(|_| true)
                }
                None => Ok(false),
            }
        });
        taken.unwrap_or(false)
    }
}

/// As many whole lines as a pipe takes in one piece, so that lines of several processes do not mix.
/// Of a longer line, as much as the pipe takes.
pub(super) fn in_one_piece(bytes: &[u8]) -> &[u8] {
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
