//! What all sites of a server share: the index of what was resolved, the bounds, and the kernel's word on changes.
//!
//! One watch queue and one index for all of them: bounds hold for all together, and the least used goes wherever it is.
//! Leaves out what a site is (`site.rs`). Tested in `tests/changes.rs`, `tests/bounds.rs` and `tests/sites.rs`.

use super::{
    content::{Budget, Charge},
    entry::{Holdings, SETTLE_MS},
    index::{Index, SiteId, WatchTree},
    memory::Memory,
    options::{SiteError, SiteOptions, StoreOptions},
    site::Site,
};
use rustix::fs::inotify::{self, CreateFlags};
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use vermeil_io::CacheOnly;

/// What part of a budget is let go when it is used up. Guess: a sweep of the cores' maps for a sixteenth of what they
/// hold costs less than reading that sixteenth did.
const EVICTED_PART: u64 = 16;

/// What the sites of a server share; shared by all cores.
pub struct Store {
    pub(super) options: StoreOptions,
    inotify: Option<Arc<OwnedFd>>,
    index: Mutex<Index>,
    contents: Arc<Budget>,
    memory: Memory,
    descriptors: Arc<Budget>,
    /// How often something was let go to make room. Relaxed: a hint to the cores to let go of it too.
    evictions: AtomicU64,
    /// See [`Index::draining`]. Written only when something is told or looked up.
    draining: Arc<AtomicBool>,
    /// See [`SETTLE_MS`].
    pub(super) settle_ms: i64,
    /// Sites opened so far: their numbers are never used again.
    sites: AtomicU64,
}

impl Store {
    /// An empty one. Without inotify, paths are looked up at each use: slower, as right.
    pub fn new(options: StoreOptions) -> Arc<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok().map(Arc::new);
        Self::with(options, inotify, SETTLE_MS)
    }

    /// Also with what tests replace.
    pub(super) fn with(options: StoreOptions, inotify: Option<Arc<OwnedFd>>, settle_ms: i64) -> Arc<Self> {
        let tree = WatchTree::new(inotify.clone(), options.watches_max);
        let index = Index::new(tree, options.entries_max);
        Arc::new(Self {
            draining: index.draining(),
            index: Mutex::new(index),
            contents: Budget::new(options.content_bytes_max),
            memory: Memory::new(options.pages, options.content_bytes_max),
            descriptors: Budget::new(options.descriptors_max),
            options,
            inotify,
            evictions: AtomicU64::new(0),
            settle_ms,
            sites: AtomicU64::new(0),
        })
    }

    /// Opens the folder `root` for serving. It is closed, and all that was remembered of it let go, when the last
    /// reference to the site is dropped.
    ///
    /// # Errors
    /// If it is no folder, may not be searched, or the kernel lacks `openat2(2)`. With [`CacheOnly::Yes`] also
    /// [`WouldBlock`](std::io::ErrorKind::WouldBlock), if the disk would have to be waited for.
    pub fn open(
        self: &Arc<Self>,
        root: &Path,
        options: SiteOptions,
        cache: CacheOnly,
    ) -> Result<Arc<Site>, SiteError> {
        let id = SiteId(self.sites.fetch_add(1, Ordering::Relaxed));
        Site::open(self.clone(), id, root, options, cache).map(Arc::new)
    }

    /// The memory of contents.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The bounds it keeps.
    pub fn options(&self) -> &StoreOptions {
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

    /// What is held now, for metrics.
    pub fn usage(&self) -> Usage {
        let index = self.lock();
        Usage {
            sites: index.sites(),
            entries: index.entries(),
            watches: index.watches(),
            content_bytes: self.contents.used(),
            descriptors: self.descriptors.used(),
            overflows: index.overflows(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Index> {
        self.index.lock().expect("nothing panics under this lock")
    }

    /// Grows when a part of what the cores hold was let go.
    #[inline]
    pub(super) fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    /// A site has gone: its entries are in the cores' maps for nothing.
    pub(super) fn close(&self, site: SiteId) {
        self.lock().close(site);
        self.evictions.fetch_add(1, Ordering::Relaxed);
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
}

/// What a store holds at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Folders open for serving.
    pub sites: usize,
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
