//! The log files of hosts: a bounded number of open files, whatever the number of hosts.
//!
//! The log thread adds the lines of a batch here, each for a path, and then writes the lines of
//! each path in one piece. At the bound, the file that was unused for the longest time is closed,
//! and opened again for its next line. A file that cannot be written loses its lines, which are
//! counted, because the lines of other hosts must not wait for a single host. Leaves out the common
//! log (`writer.rs`). Tested below, in `access_log/tests.rs` and through the binary
//! (`crates/e2e/tests/e2e/host_logs.rs`).

use super::named::{LogFolder, NamedFile};
use super::notices::{NoticeKind, Notices};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes of a line buffer that stay between two batches. Lines have 200 bytes, so most hosts need
/// no new memory for a batch, and the bound of open files bounds this memory too.
const TEXT_KEPT_BYTES: usize = 4096;

/// Lines written and lines dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LineCounts {
    pub(super) written: u64,
    pub(super) dropped: u64,
}

/// The open log files of hosts.
#[derive(Debug)]
pub(super) struct HostFiles {
    folder: LogFolder,
    open_max: usize,
    /// Pause between a failed open or write and the next attempt.
    retry: Duration,
    files: HashMap<PathBuf, HostFile>,
    /// The number of the present batch.
    batch: u64,
    counts: LineCounts,
    /// The file that lost lines last.
    last_failed: Option<PathBuf>,
}

#[derive(Debug)]
struct HostFile {
    file: NamedFile,
    text: Vec<u8>,
    lines: u64,
    used_in: u64,
    failed: Option<Instant>,
}

impl HostFiles {
    pub(super) fn new(folder: LogFolder, open_max: usize, retry: Duration) -> Self {
        let (files, counts) = (HashMap::new(), LineCounts::default());
        Self { folder, open_max: open_max.max(1), retry, files, batch: 0, counts, last_failed: None }
    }

    /// The buffer for a line of the file at `path`. The caller adds exactly one line.
    pub(super) fn line(&mut self, path: &Path, notices: &Notices) -> &mut Vec<u8> {
        if !self.files.contains_key(path) {
            if self.files.len() >= self.open_max {
                self.close_longest_unused(notices);
            }
            let file = NamedFile::new(path, self.folder.clone());
            let new = HostFile { file, text: Vec::new(), lines: 0, used_in: 0, failed: None };
            self.files.insert(path.to_owned(), new);
        }
        let file = self.files.get_mut(path).expect("inserted above");
        file.used_in = self.batch;
        file.lines += 1;
        &mut file.text
    }

    /// Writes the lines of all files, and returns the counts since the last call.
    pub(super) fn write(&mut self, notices: &Notices) -> LineCounts {
        for file in self.files.values_mut().filter(|file| file.lines > 0) {
            file.write(self.retry, notices, &mut self.counts);
            if file.failed.is_some() {
                self.last_failed = Some(file.file.path.clone());
            }
        }
        self.batch += 1;
        std::mem::take(&mut self.counts)
    }

    /// Opens each file again before its next line.
    pub(super) fn reopen(&mut self) {
        self.files.clear();
    }

    /// At the bound this costs a look at each open file, a few microseconds, about as much as the
    /// opening of a file.
    fn close_longest_unused(&mut self, notices: &Notices) {
        let unused = self.files.iter().min_by_key(|(_, file)| file.used_in).map(|(path, _)| path.clone());
        if let Some(mut file) = unused.and_then(|path| self.files.remove(&path)) {
            file.write(self.retry, notices, &mut self.counts);
            self.last_failed = file.failed.map(|_| file.file.path).or(self.last_failed.take());
        }
    }

    /// The path of the file that lost lines last.
    pub(super) fn last_failed(&self) -> Option<&Path> {
        self.last_failed.as_deref()
    }
}

impl HostFile {
    fn write(&mut self, retry: Duration, notices: &Notices, counts: &mut LineCounts) {
        let lines = std::mem::take(&mut self.lines);
        let result = match self.failed {
            Some(at) if at.elapsed() < retry => None,
            _ => Some(self.try_write(notices)),
        };
        let dropped = match result {
            Some(Ok(())) => {
                if self.failed.take().is_some() {
                    let line = format_args!("the access log {} is written again", self.file.path.display());
                    notices.say(NoticeKind::LogTrouble, line);
                }
                0
            }
            Some(Err(error)) => {
                if self.failed.is_none() {
                    let path = self.file.path.display();
                    let line = format_args!(
                        "cannot write the access log {path}: {error}; its records are dropped until it can be written"
                    );
                    notices.say(NoticeKind::LogTrouble, line);
                }
                self.failed = Some(Instant::now());
                self.unwritten_lines()
            }
            None => lines,
        };
        counts.dropped += dropped;
        counts.written += lines - dropped;
        self.text.clear();
        self.text.shrink_to(TEXT_KEPT_BYTES);
    }

    /// Writes the text, and keeps the part that could not be written.
    fn try_write(&mut self, notices: &Notices) -> io::Result<()> {
        if self.file.open.is_none() || self.file.has_moved() {
            self.file.reopen()?;
        }
        self.file.rotate_if_due(notices);
        let open = self.file.open.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let mut at = 0;
        let result = loop {
            if at == self.text.len() {
                break Ok(());
            }
            match open.write(&self.text[at..], Duration::ZERO) {
                Some(Ok(written)) if written > 0 => at += written,
                Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Some(Err(error)) => break Err(error),
                Some(Ok(_)) | None => break Err(io::ErrorKind::WouldBlock.into()),
            }
        };
        if result.is_err() {
            // The first half of a line must not stay behind, because a later line would follow.
            let start = self.text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            open.take_back(at - start);
            self.text.drain(..start);
        }
        result
    }

    fn unwritten_lines(&self) -> u64 {
        self.text.iter().filter(|byte| **byte == b'\n').count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{named::OwnAccess, rotation::Rotation};
    use std::sync::Arc;

    /// Regression: each opening put a rotation off for two seconds, so files that were closed for
    /// others between their lines grew without bound.
    #[test]
    fn file_that_was_closed_for_another_is_rotated() {
        let site = tempfile::tempdir().expect("a folder");
        let rotation = Rotation { bytes: Some(40), every: None, kept: 3 };
        let folder = LogFolder { access: Arc::new(OwnAccess), rotation: Some(rotation) };
        let mut files = HostFiles::new(folder, 1, Duration::from_secs(1));
        let (notices, paths) = (Notices::kept(), [site.path().join("a"), site.path().join("b")]);
        for _ in 0..3 {
            for path in &paths {
                files.line(path, &notices).extend_from_slice(&[b'x'; 50]);
                assert_eq!(files.write(&notices).dropped, 0);
            }
        }
        for path in &paths {
            let length = std::fs::metadata(path).expect("the file is there").len();
            assert!(length < 150, "{length} bytes in one file");
            assert!(path.with_extension("1").exists(), "{} is rotated", path.display());
        }
    }
}
