//! A site: a folder that the server serves.
//!
//! The site follows its root when the root's path leads elsewhere, for example after a deployment
//! that switches a symbolic link. `store.rs` has the state that sites share. Tested in
//! `tests/changes.rs` and `tests/root.rs`.

use super::{
    entry::Checked,
    index::{LookTarget, SiteId},
    open::WouldBlock,
    options::{SiteError, SiteOptions},
    root::{SiteRoot, locate},
    store::FileStore,
};
use rustix::io::Errno;
use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use vermeil_io::CacheOnly;

/// A served folder; shared by all cores.
pub struct Site {
    pub(super) store: Arc<FileStore>,
    pub(super) id: SiteId,
    pub(super) options: Arc<SiteOptions>,
    /// Configured path of the root, absolute, symbolic links kept.
    path: PathBuf,
    /// When the root was opened.
    opened: Instant,
    /// Milliseconds on the server's clock when the root's path was last followed; 0 before.
    root_checked_ms: AtomicU64,
}

impl FileStore {
    /// Opens the folder `root` for serving. The store closes the folder and drops its entries when
    /// the last reference to the site is dropped.
    ///
    /// # Errors
    /// The path is no folder, the process may not search the folder, or the kernel lacks
    /// `openat2(2)`. With [`CacheOnly::Yes`] also [`WouldBlock`](std::io::ErrorKind::WouldBlock),
    /// if the open would wait for the disk.
    pub fn open(
        self: &Arc<Self>,
        root: &Path,
        options: impl Into<Arc<SiteOptions>>,
        cache: CacheOnly,
    ) -> Result<Arc<Site>, SiteError> {
        let path = std::path::absolute(root).map_err(|error| SiteError::new(root, error))?;
        let root = SiteRoot::open(&path, cache).map_err(|errno| SiteError::new(&path, errno))?;
        let id = SiteId(self.sites.fetch_add(1, Ordering::Relaxed));
        self.lock().set_root(id, Arc::new(root));
        Ok(Arc::new(Site::new(self.clone(), id, path, options.into())))
    }
}

impl Site {
    /// A site whose root the index of `store` has. `path` is absolute.
    pub(super) fn new(store: Arc<FileStore>, id: SiteId, path: PathBuf, options: Arc<SiteOptions>) -> Self {
        Self { store, id, options, path, opened: Instant::now(), root_checked_ms: AtomicU64::new(0) }
    }

    /// The options that say which files of the folder are served.
    pub fn options(&self) -> &SiteOptions {
        &self.options
    }

    /// Configured path of the root, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The store that this site shares with other sites.
    pub fn store(&self) -> &Arc<FileStore> {
        &self.store
    }

    /// How the site notices changes, in a few words, for a line at start.
    pub fn describe_changes(&self) -> String {
        let mut index = self.store.lock();
        if index.watch_root(self.id) {
            return "told by inotify".to_owned();
        }
        let why = match (index.root(self.id).watched(), self.store.notify_fd()) {
            (_, None) => "no inotify",
            (false, _) => "this file system does not tell of all changes",
            (true, _) => "no inotify watch left, or no right to read the folder",
        };
        format!("looked up at each use ({why})")
    }

    pub(super) fn root(&self) -> Arc<SiteRoot> {
        self.store.lock().root(self.id).clone()
    }

    /// The entry of `target` if a core has admitted the path; otherwise the root. Takes the lock of
    /// the index once.
    pub(super) fn entry_or_root(&self, target: &LookTarget) -> Result<Checked, Arc<SiteRoot>> {
        let index = self.store.lock();
        index.find(self.id, target).ok_or_else(|| index.root(self.id).clone())
    }

    /// Checks whether the root's path leads to another folder, once per
    /// [`StoreOptions::recheck_ms`](super::StoreOptions::recheck_ms).
    pub(super) fn follow_root(&self, now_ms: u64, cache: CacheOnly) -> Result<(), WouldBlock> {
        let checked_ms = self.root_checked_ms.load(Ordering::Relaxed);
        if now_ms.saturating_sub(checked_ms) < self.store.options.recheck_ms {
            return Ok(());
        }
        let recheck = Duration::from_millis(self.store.options.recheck_ms);
        if checked_ms == 0 && self.opened.elapsed() < recheck {
            // The open has just followed the path.
            self.root_checked_ms.store(now_ms, Ordering::Relaxed);
            return Ok(());
        }
        let located = match locate(&self.path, cache) {
            Err(Errno::AGAIN) => return Err(WouldBlock),
            located => located.and_then(SiteRoot::new),
        };
        self.root_checked_ms.store(now_ms, Ordering::Relaxed);
        // While the path leads nowhere, the site serves the old folder as far as that folder
        // exists.
        let Ok(found) = located else { return Ok(()) };
        let mut index = self.store.lock();
        if !index.root(self.id).validator.is_same_file(&found.validator) {
            index.set_root(self.id, Arc::new(found));
        }
        Ok(())
    }
}

/// Opens the folder at `path` as for serving, and closes it.
///
/// # Errors
/// This thread cannot serve the folder.
pub fn try_folder(path: &Path) -> Result<(), SiteError> {
    SiteRoot::open(path, CacheOnly::No).map(drop).map_err(|errno| SiteError::new(path, errno))
}

impl Drop for Site {
    fn drop(&mut self) {
        self.store.close(self.id);
    }
}

impl From<SiteError> for io::Error {
    fn from(error: SiteError) -> Self {
        Self::new(error.kind(), error)
    }
}
