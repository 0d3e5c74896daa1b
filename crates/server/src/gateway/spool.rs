//! Content that is too long for memory: a file without a name, and a bound on all of them; and the
//! bound on all content in memory.
//!
//! The file is made with `O_TMPFILE`, so nothing is left behind whatever happens. Writing may wait for a disk, so its
//! caller runs it where waiting is allowed.

use super::GatewayOptions;
use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    io::Errno,
};
use std::{
    fs::File,
    io::{self, Write as _},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Where the requests of a server spool, and how many bytes all of them may have there at once.
#[derive(Debug)]
pub(crate) struct Spools {
    folder: PathBuf,
    used: AtomicU64,
    max: u64,
    /// Bytes of content in memory.
    held: AtomicU64,
}

/// What one request holds of the memory for content; dropping it gives that back.
#[derive(Debug)]
pub(crate) struct Held {
    spools: Arc<Spools>,
    bytes: u64,
}

impl Held {
    /// Holds `bytes` in all, if all requests together stay within `max`; says whether they do.
    pub(super) fn hold(&mut self, bytes: usize, max: u64) -> bool {
        let bytes = bytes as u64;
        let more = bytes.saturating_sub(self.bytes);
        // Relaxed: a count, which publishes nothing.
        let add = |held: u64| held.checked_add(more).filter(|&sum| sum <= max);
        let fits =
            more == 0 || self.spools.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok();
        if fits {
            self.bytes += more;
        }
        fits
    }

    /// Gives all of it back.
    pub(super) fn release(&mut self) {
        self.spools.held.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = 0;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

impl Spools {
    pub(crate) fn new(folder: PathBuf, max: u64) -> Arc<Self> {
        Arc::new(Self { folder, used: AtomicU64::new(0), max, held: AtomicU64::new(0) })
    }

    /// Nothing of the memory for content, for a request that begins.
    pub(super) fn memory(self: &Arc<Self>) -> Held {
        Held { spools: self.clone(), bytes: 0 }
    }

    /// The folder that `options` say, or the first for large temporary files where one can be made. Never the folder of a service
    /// in `/run`, because that is memory.
    pub(crate) fn folder(options: &GatewayOptions) -> PathBuf {
        if let Some(folder) = &options.spool_folder {
            return folder.clone();
        }
        let named = std::env::var_os("TMPDIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
        let usual = ["/var/tmp", "/tmp"].map(PathBuf::from);
        let found = usual.iter().find(|folder| Self::try_out(folder).is_ok());
        named.unwrap_or_else(|| found.unwrap_or(&usual[0]).clone())
    }

    /// Makes a file in `folder`, and lets it go.
    ///
    /// # Errors
    /// What the file system says; not every one has files without a name.
    pub(crate) fn try_out(folder: &Path) -> io::Result<()> {
        nameless(folder).map(drop)
    }

    fn take(&self, bytes: u64) -> bool {
        let add = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= self.max);
        // Relaxed: a count, which publishes nothing.
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
    /// An empty one.
    ///
    /// # Errors
    /// What the file system says; not every one has files without a name.
    pub(super) fn create(spools: Arc<Spools>) -> io::Result<Self> {
        Ok(Self { file: nameless(&spools.folder)?, bytes: 0, spools })
    }

    /// Appends `piece`; may wait.
    ///
    /// # Errors
    /// The bound is reached (`StorageFull`), or what the file system says.
    pub(super) fn append(&mut self, piece: &[u8]) -> io::Result<()> {
        if !self.spools.take(piece.len() as u64) {
            return Err(Errno::NOSPC.into());
        }
        self.bytes += piece.len() as u64;
        self.file.write_all(piece)
    }

    /// The same file for a program, which reads it from wherever it is told to.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub(crate) fn reopen(&self) -> io::Result<OwnedFd> {
        self.file.try_clone().map(OwnedFd::from)
    }

    /// Bytes in it.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn nameless(folder: &Path) -> io::Result<File> {
    // `EXCL`: it never gets a name.
    let flags = OFlags::TMPFILE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(openat(CWD, folder, flags, Mode::RUSR | Mode::WUSR)?.into())
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
    fn it_holds_what_was_appended_within_the_bound_and_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let spools = Spools::new(folder.path().to_owned(), 10);
        let mut one = Spool::create(spools.clone()).expect("a file");
        let mut two = Spool::create(spools.clone()).expect("a file");
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0, "no name");
        one.append(b"1234").and_then(|()| one.append(b"567")).expect("within");
        assert_eq!(two.append(b"1234").map_err(|error| error.kind()), Err(io::ErrorKind::StorageFull));
        two.append(b"123").expect("within");
        let mut read = [0; 7];
        one.file.read_exact_at(&mut read, 0).expect("there");
        assert_eq!((&read, one.bytes()), (b"1234567", 7));
        drop(one);
        two.append(b"4567890").expect("given back");
        drop(two);
        assert_eq!(spools.used.load(Ordering::Relaxed), 0);
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
