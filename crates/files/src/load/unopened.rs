//! A request to a folder that stays closed: the store opens no root, makes no entry and sets no
//! watch.
//!
//! Answers for files and for missing paths. The regular look-up, in an open site, has to decide
//! about the rest. Tested in `tests/cold.rs`.

use super::{
    super::{entry::Entry, index::LookTarget, options::SiteOptions, store::FileStore},
    WouldBlock,
    cold::{self, ColdRoot},
};
use std::{path::PathBuf, sync::Arc};
use vermeil_io::CacheOnly;

/// A folder that serves a request by the path of the folder.
pub struct UnopenedFolder {
    /// The store that sites share.
    pub store: Arc<FileStore>,
    /// Absolute.
    pub path: PathBuf,
    /// Which files of the folder are served.
    pub options: Arc<SiteOptions>,
}

/// A path to resolve in a folder that stays closed.
pub struct UnopenedJob {
    folder: UnopenedFolder,
    target: LookTarget,
    now_ms: u64,
}

impl UnopenedJob {
    pub(in super::super) fn new(folder: UnopenedFolder, target: LookTarget, now_ms: u64) -> Self {
        Self { folder, target, now_ms }
    }

    /// Resolves the path without waiting for a disk. `None` if the folder has to be opened.
    ///
    /// # Errors
    /// [`WouldBlock`]: another thread has to [run](Self::run) the job.
    pub fn try_now(&self) -> Result<Option<Entry>, WouldBlock> {
        self.load(CacheOnly::Yes)
    }

    /// As [`try_now`](Self::try_now), and may wait for the disk.
    pub fn run(&self) -> Option<Entry> {
        // An open that may wait never returns the error (`open.rs`).
        self.load(CacheOnly::No).ok().flatten()
    }

    fn load(&self, cache: CacheOnly) -> Result<Option<Entry>, WouldBlock> {
        let Self { folder: UnopenedFolder { store, path, options }, target, now_ms } = self;
        cold::look_up(&ColdRoot::Path { store, path, options }, target, *now_ms, cache)
    }
}
