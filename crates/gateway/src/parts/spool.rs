//! Content that is too long for memory, in a file without a name. Bounds the total of all files,
//! and the total of content in memory.
//!
//! The file is opened with `O_TMPFILE`, so a crash leaves no file behind. A write may block on the
//! disk, so the caller runs writes on a thread that may block.

use super::GatewayOptions;
use rustix::fs::{CWD, Mode, OFlags, fchmod, openat};
use std::{
    fs::File,
    io::{self, Write as _},
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Why content cannot be kept in a file.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The files of all requests have reached their bound, in bytes.
    #[error(
        "all requests together have more content than the {0} bytes of spool_bytes in [programs]; raise that key"
    )]
    Full(u64),
    /// The file system of the folder refuses.
    #[error(
        "cannot keep the content in {}: {source}; make room there, or name another folder by spool_folder in [programs]",
        folder.display()
    )]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// No thread is free to write the file.
    #[error("cannot keep the content: {0}")]
    Busy(io::Error),
}

/// The spool folder of a server, and the bound on the bytes of all spooled requests.
#[derive(Debug)]
pub struct Spools {
    folder: PathBuf,
    used: AtomicU64,
    max: u64,
    /// Bytes of content in memory.
    held: AtomicU64,
}

/// One request's share of the memory for content. Dropping this value returns the share.
#[derive(Debug)]
pub(crate) struct SpoolShare {
    spools: Arc<Spools>,
    bytes: u64,
}

impl SpoolShare {
    /// Raises the request's share to `bytes` if all requests together stay within `max`. Returns
    /// whether they do.
    pub(super) fn hold(&mut self, bytes: usize, max: u64) -> bool {
        let bytes = bytes as u64;
        let more = bytes.saturating_sub(self.bytes);
        // Relaxed, because the count publishes no other data.
        let add = |held: u64| held.checked_add(more).filter(|&sum| sum <= max);
        let fits =
            more == 0 || self.spools.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok();
        if fits {
            self.bytes += more;
        }
        fits
    }

    /// Returns the whole share.
    pub(super) fn release(&mut self) {
        self.spools.held.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = 0;
    }
}

impl Drop for SpoolShare {
    fn drop(&mut self) {
        self.release();
    }
}

impl Spools {
    /// Files in `folder`, of `max` bytes together at most.
    pub fn new(folder: PathBuf, max: u64) -> Arc<Self> {
        Arc::new(Self { folder, used: AtomicU64::new(0), max, held: AtomicU64::new(0) })
    }

    /// An empty share of the memory, for a new request.
    pub(super) fn memory(self: &Arc<Self>) -> SpoolShare {
        SpoolShare { spools: self.clone(), bytes: 0 }
    }

    /// The configured folder, or the first standard folder for large temporary files in which a
    /// file can be made. Never a service's folder in `/run`, because that is memory.
    pub fn folder(options: &GatewayOptions) -> PathBuf {
        if let Some(folder) = &options.spool_folder {
            return folder.clone();
        }
        let named = std::env::var_os("TMPDIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
        let usual = ["/var/tmp", "/tmp"].map(PathBuf::from);
        let found = usual.iter().find(|folder| Self::try_out(folder).is_ok());
        named.unwrap_or_else(|| found.unwrap_or(&usual[0]).clone())
    }

    /// Makes a file in `folder`, and drops it.
    ///
    /// # Errors
    /// The error of the file system, because not every file system supports files without a name.
    pub fn try_out(folder: &Path) -> io::Result<()> {
        nameless(folder).map(drop)
    }

    fn failed(&self, source: io::Error) -> SpoolError {
        SpoolError::Folder { folder: self.folder.clone(), source }
    }

    fn take(&self, bytes: u64) -> bool {
        let add = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= self.max);
        // Relaxed, because the count publishes no other data.
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }
}

/// Spooled content.
#[derive(Debug)]
pub(crate) struct Spool {
    pub(super) file: File,
    bytes: u64,
    spools: Arc<Spools>,
}

impl Spool {
    /// Makes an empty file.
    ///
    /// # Errors
    /// The error of the file system, because not every file system supports files without a name.
    pub(super) fn create(spools: Arc<Spools>) -> Result<Self, SpoolError> {
        let file = nameless(&spools.folder).map_err(|error| spools.failed(error))?;
        Ok(Self { file, bytes: 0, spools })
    }

    /// Appends `piece`. May block.
    ///
    /// # Errors
    /// The bound is reached, or the file system's error.
    pub(super) fn append(&mut self, piece: &[u8]) -> Result<(), SpoolError> {
        if !self.spools.take(piece.len() as u64) {
            return Err(SpoolError::Full(self.spools.max));
        }
        self.bytes += piece.len() as u64;
        self.file.write_all(piece).map_err(|error| self.spools.failed(error))
    }

    /// Opens the same file for a program ([`reopened`]).
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn reopen(&self) -> io::Result<OwnedFd> {
        reopened(&self.file)
    }

    /// Length of the content.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The rights to a file of content. A program of another user may open `/dev/stdin`. The file has
/// no name, so only a process that has the file, or may trace such a process, can open it.
const CONTENT_MODE: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP).union(Mode::ROTH);

/// Opens `file` again for reading, at its start. A program with the result cannot write to the
/// file, which counts against the server's bound and belongs to the server's user.
///
/// # Errors
/// No descriptors are left, or `/proc` is missing.
pub(crate) fn reopened(file: &File) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

fn nameless(folder: &Path) -> io::Result<File> {
    // `EXCL`: the file can never get a name.
    let flags = OFlags::TMPFILE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let file = openat(CWD, folder, flags, CONTENT_MODE)?;
    // Independent of the umask.
    fchmod(&file, CONTENT_MODE)?;
    Ok(file.into())
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.spools.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn spool_holds_bytes_within_bound_and_leaves_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let spools = Spools::new(folder.path().to_owned(), 10);
        let mut one = Spool::create(spools.clone()).expect("a file");
        let mut two = Spool::create(spools.clone()).expect("a file");
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0, "no name");
        one.append(b"1234").and_then(|()| one.append(b"567")).expect("within");
        let error = two.append(b"1234").expect_err("beyond the bound").to_string();
        assert!(error.contains("the 10 bytes of spool_bytes in [programs]"), "{error}");
        two.append(b"123").expect("within");
        let mut read = [0; 7];
        one.file.read_exact_at(&mut read, 0).expect("there");
        assert_eq!((&read, one.bytes()), (b"1234567", 7));
        let of_program = File::from(one.reopen().expect("a descriptor"));
        assert_eq!(io::read_to_string(&of_program).expect("readable"), "1234567");
        assert!((&of_program).write_all(b"8").is_err(), "a program writes nothing there");
        drop(one);
        two.append(b"4567890").expect("given back");
        drop(two);
        assert_eq!(spools.used.load(Ordering::Relaxed), 0);
    }

    /// Regression: neither the folder nor its key was named.
    #[test]
    fn refusing_folder_is_named_with_its_key() {
        let error = Spool::create(Spools::new("/proc/none".into(), 10)).expect_err("no folder").to_string();
        assert!(error.starts_with("cannot keep the content in /proc/none: "), "{error}");
        assert!(error.ends_with("name another folder by spool_folder in [programs]"), "{error}");
    }

    #[test]
    fn all_requests_share_the_memory() {
        let spools = Spools::new("/".into(), 0);
        let (mut one, mut two) = (spools.memory(), spools.memory());
        assert!(one.hold(6, 10) && one.hold(4, 10), "a smaller piece takes nothing more");
        assert!(!two.hold(5, 10) && two.hold(4, 10));
        one.release();
        assert!(two.hold(10, 10));
        drop((one, two));
        assert_eq!(spools.held.load(Ordering::Relaxed), 0);
    }
}
