//! What all cores share: the root, the index of what was resolved, the bounds, and the kernel's word on changes.
//!
//! Also following the root when its path leads elsewhere (a deployment that switches a symbolic link), and which file
//! systems inotify can vouch for. Tested in `tests/changes.rs` and `tests/root.rs`.

use super::{
    content::{Budget, Charge},
    entry::{Entry, Holdings, Outcome, SETTLE_MS},
    index::{Index, WatchTree},
    listing::ListingJob,
    load::WouldBlock,
    open::{Identity, Purpose, Way, open},
    options::{FollowSymlinks, SiteError, SiteOptions},
};
use rustix::{
    fs::{
        CWD, Mode, OFlags, ResolveFlags, fstatfs,
        inotify::{self, CreateFlags},
        openat2,
    },
    io::Errno,
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use vermeil_io::CacheOnly;

/// A folder that is served; shared by all cores.
pub struct Site {
    pub(super) options: SiteOptions,
    /// Where the root was named, absolute, symbolic links kept.
    path: PathBuf,
    inotify: Option<Arc<OwnedFd>>,
    index: Mutex<Index>,
    contents: Arc<Budget>,
    descriptors: Arc<Budget>,
    /// Milliseconds on the server's clock when the root's path was last followed.
    root_checked_ms: AtomicU64,
    /// How often something was let go to make room. Relaxed: a hint to the cores to let go of it too.
    evictions: AtomicU64,
    /// See [`Index::draining`]. Written only when something is told or looked up.
    draining: Arc<AtomicBool>,
    /// See [`SETTLE_MS`].
    pub(super) settle_ms: i64,
}

/// The folder that paths start at.
#[derive(Debug)]
pub(super) struct Root {
    folder: OwnedFd,
    identity: Identity,
    told: bool,
}

/// What part of a budget is let go when it is used up. Guess: a sweep of the cores' maps for a sixteenth of what they
/// hold costs less than reading that sixteenth did.
const EVICTED_PART: u64 = 16;

/// File systems on which every change is made through this kernel, and so told by it (`linux/magic.h`; ZFS and bcachefs
/// by their own headers): ext2 to ext4, XFS, Btrfs, tmpfs, ramfs, F2FS, ZFS, bcachefs, FAT, exFAT, JFS, NILFS, and
/// those that never change: squashfs, EROFS, ISO 9660, cramfs; and overlayfs, the root of most containers, whose layers must
/// not be changed beneath a mount (kernel documentation, overlayfs, "Changes to underlying filesystems"). Not in the
/// list, and so looked up at each use: whatever other machines or programs write (NFS, SMB, 9P, FUSE, Ceph, AFS, OCFS2,
/// GFS2), and whatever is unknown.
const TOLD_FILE_SYSTEMS: [u32; 18] = [
    0x794C_7630,
    0xEF53,
    0x5846_5342,
    0x9123_683E,
    0x0102_1994,
    0x8584_58F6,
    0xF2F5_2010,
    0x2FC1_2FC1,
    0xCA45_1A4E,
    0x4D44,
    0x2011_BAB0,
    0x3153_464A,
    0x3434,
    0x7371_7368,
    0xE0F5_E1E2,
    0x9660,
    0x28CD_3D45,
    0x5265_4973,
];

impl Root {
    fn new(folder: OwnedFd) -> Result<Self, Errno> {
        let identity = Identity::of(folder.as_fd())?;
        // The field's width differs between architectures; the magic number has 32 bits.
        let told = fstatfs(&folder).is_ok_and(|info| TOLD_FILE_SYSTEMS.contains(&(info.f_type as u32)));
        Ok(Self { folder, identity, told })
    }

    /// The folder, if changes below it are told.
    pub(super) fn watchable(&self) -> Option<BorrowedFd<'_>> {
        self.told.then(|| self.folder.as_fd())
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

impl Site {
    /// Opens the folder `root` for serving. Without inotify, paths are looked up at each use: slower, as right.
    ///
    /// # Errors
    /// If it is no folder, may not be searched, or the kernel lacks `openat2(2)`.
    pub fn open(root: &Path, options: SiteOptions) -> Result<Arc<Self>, SiteError> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok().map(Arc::new);
        Self::with(root, options, inotify, SETTLE_MS)
    }

    /// Also with what tests replace.
    pub(super) fn with(
        root: &Path,
        options: SiteOptions,
        inotify: Option<Arc<OwnedFd>>,
        settle_ms: i64,
    ) -> Result<Arc<Self>, SiteError> {
        let failed = |errno: Errno| SiteError::new(root, errno);
        let path = std::path::absolute(root).map_err(|error| SiteError::new(root, error))?;
        let folder = locate(&path, CacheOnly::No).map_err(failed)?;
        // Fails where nothing below could be reached either.
        let way = Way::Allowed(FollowSymlinks::Within);
        open(folder.as_fd(), b"", Purpose::LocatingFolder, way, CacheOnly::No).map_err(failed)?;
        let root = Arc::new(Root::new(folder).map_err(failed)?);
        let tree = WatchTree::new(inotify.clone(), options.watches_max);
        let index = Index::new(root, tree, options.entries_max);
        let draining = index.draining();
        Ok(Arc::new(Self {
            index: Mutex::new(index),
            contents: Budget::new(options.content_bytes_max),
            descriptors: Budget::new(options.descriptors_max),
            options,
            path,
            inotify,
            root_checked_ms: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            draining,
            settle_ms,
        }))
    }

    /// What was asked for when it was opened.
    pub fn options(&self) -> &SiteOptions {
        &self.options
    }

    /// Becomes readable when [`Self::handle_events`] has something to do; nothing if there is no inotify.
    pub fn notify_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(|inotify| inotify.as_fd())
    }

    /// Takes in what the kernel has to tell about changes; never waits. May be called by any thread, and should be called by
    /// a core before it answers what came in by the same poll.
    pub fn handle_events(&self) {
        self.lock().drain();
    }

    /// Waits until a core that has read events has also marked what they concern: between the two, another core would
    /// see neither the event nor the mark.
    #[inline]
    pub(super) fn wait_for_events(&self) {
        if self.draining.load(Ordering::Acquire) {
            drop(self.lock());
        }
    }

    /// How changes are noticed, in a few words, for a line at start.
    pub fn describe_changes(&self) -> String {
        let index = self.lock();
        match (index.watches(), index.root().told, &self.inotify) {
            (1.., ..) => "told by inotify".to_owned(),
            (0, _, None) => "looked up at each use (no inotify)".to_owned(),
            (0, false, _) => {
                "looked up at each use (this file system does not tell of all changes)".to_owned()
            }
            (0, true, _) => {
                "looked up at each use (no inotify watch left, or no right to read the folder)".to_owned()
            }
        }
    }

    /// What is held now, for metrics.
    pub fn usage(&self) -> Usage {
        let index = self.lock();
        Usage {
            entries: index.entries(),
            watches: index.watches(),
            content_bytes: self.contents.used(),
            descriptors: self.descriptors.used(),
            overflows: index.overflows(),
        }
    }

    /// A job that makes the page of an entry whose outcome is [`Outcome::Listing`].
    pub fn listing_job(self: &Arc<Self>, entry: &Entry) -> Option<ListingJob> {
        match entry.outcome() {
            Outcome::Listing { path } => Some(ListingJob::new(self.clone(), path)),
            _ => None,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Index> {
        self.index.lock().expect("nothing panics under this lock")
    }

    pub(super) fn root(&self) -> Arc<Root> {
        self.lock().root().clone()
    }

    /// Grows when a part of what the cores hold was let go.
    #[inline]
    pub(super) fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    /// Room for a content of `bytes`. If there is none, others are let go; what they held is free when the cores have let
    /// go of them too.
    pub(super) fn charge_content(&self, bytes: u64) -> Option<Charge> {
        self.charge(&self.contents, bytes, |holdings| holdings.content_bytes)
    }

    /// Room for one more descriptor.
    pub(super) fn charge_descriptor(&self) -> Option<Charge> {
        self.charge(&self.descriptors, 1, |holdings| holdings.descriptors)
    }

    fn charge(&self, budget: &Arc<Budget>, amount: u64, part: fn(Holdings) -> u64) -> Option<Charge> {
        if let Some(charge) = budget.take(amount) {
            return Some(charge);
        }
        if amount > budget.max() {
            return None;
        }
        let mut index = self.lock();
        // Cores let go by sweeping their maps, which costs their size; so a good part is let go at once, and no more while
        // that is on its way.
        let wanted = budget.max().saturating_sub(amount.max(budget.max() / EVICTED_PART));
        let mut evicted = false;
        while part(index.holdings()) > wanted && index.evict(|entry| part(entry.holdings()) > 0) {
            evicted = true;
        }
        drop(index);
        if evicted {
            self.evictions.fetch_add(1, Ordering::Relaxed);
        }
        budget.take(amount)
    }

    /// Looks, once per [`SiteOptions::recheck_ms`], whether the root's path leads to another folder now.
    pub(super) fn follow_root(&self, now_ms: u64, cache: CacheOnly) -> Result<(), WouldBlock> {
        let checked_ms = self.root_checked_ms.load(Ordering::Relaxed);
        if now_ms.saturating_sub(checked_ms) < self.options.recheck_ms {
            return Ok(());
        }
        let located = match locate(&self.path, cache) {
            Err(Errno::AGAIN) => return Err(WouldBlock),
            located => located.and_then(Root::new),
        };
        self.root_checked_ms.store(now_ms, Ordering::Relaxed);
        // While it leads nowhere, what was there goes on being served, as far as it exists.
        let Ok(found) = located else { return Ok(()) };
        let mut index = self.lock();
        if !index.root().identity.is_same_file(&found.identity) {
            index.set_root(Arc::new(found));
        }
        Ok(())
    }
}

/// What a site holds at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Paths remembered, found or not.
    pub entries: usize,
    /// Folders watched.
    pub watches: usize,
    /// Contents in memory, in bytes, with those that a core still sends although they are out of date.
    pub content_bytes: u64,
    /// Files held open, counted the same way.
    pub descriptors: u64,
    /// Times that the kernel lost events, and everything was looked up again.
    pub overflows: u64,
}

/// Opens the folder at `path`, wherever symbolic links lead: this is the operator's path, not a client's.
fn locate(path: &Path, cache: CacheOnly) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = match cache {
        CacheOnly::Yes => ResolveFlags::CACHED,
        CacheOnly::No => ResolveFlags::empty(),
    };
    openat2(CWD, path, flags, Mode::empty(), resolve)
}

impl From<SiteError> for io::Error {
    fn from(error: SiteError) -> Self {
        Self::new(error.kind(), error)
    }
}
