//! The state that all sites of a server share: the index of resolved paths, the bounds, and the
//! inotify queue.
//!
//! All sites share one watch queue and one index, because the bounds hold for all sites together.
//! Eviction therefore picks the least used entry of any site. `site.rs` has the state of a single
//! site. Tested in `tests/changes.rs`, `tests/bounds.rs` and `tests/sites.rs`.

use super::{
    content::{Charge, ContentBudget},
    entry::{Entry, Holdings, SETTLE_MS},
    folder_facts::FolderFacts,
    folder_looks::FolderLooks,
    index::{Index, SiteId, WatchTree},
    memory::ContentMemory,
    options::StoreOptions,
};
use rustix::fs::inotify::{self, CreateFlags};
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Share of a budget that an eviction frees, as a divisor. An eviction sweeps the maps of all
/// cores, so freeing a sixteenth makes one sweep serve a sixteenth of the contents.
const EVICTED_PART: u64 = 16;

/// Milliseconds without use after which the store closes a file whose removal no event reports, for
/// example behind a link or a mount. Until then the file system of the file cannot be unmounted,
/// and a deleted file keeps its space.
pub(super) const UNWATCHED_FILE_MS: u64 = 10_000;

/// Milliseconds between searches for such files, each by a single core. Every core asks about as
/// often.
const EXPIRE_MS: u64 = 1000;

/// The state that the sites of a server and all cores share.
pub struct FileStore {
    pub(super) options: StoreOptions,
    inotify: Option<Arc<OwnedFd>>,
    index: Mutex<Index>,
    contents: Arc<ContentBudget>,
    memory: ContentMemory,
    pub(super) facts: FolderFacts,
    pub(super) folder_looks: FolderLooks,
    descriptors: Arc<ContentBudget>,
    hints: SweepHints,
    /// See [`Index::draining`]. Written only by events and look-ups.
    draining: Arc<AtomicBool>,
    /// See [`SETTLE_MS`].
    pub(super) settle_ms: i64,
    /// Sites opened so far. Site numbers are never reused.
    pub(super) sites: AtomicU64,
}

/// Hints to the cores to drop their references too. Relaxed, because entries carry their own mark.
#[derive(Default)]
struct SweepHints {
    /// Number of evictions.
    evictions: AtomicU64,
    /// Number of searches that removed unused files.
    expiries: AtomicU64,
    /// Milliseconds on the server's clock of the last search for unused files.
    expired_ms: AtomicU64,
}

impl FileStore {
    /// An empty store. Without inotify, each use of a path checks the entry again: slower, but
    /// equally correct.
    pub fn new(options: StoreOptions) -> Arc<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok().map(Arc::new);
        Self::with(options, inotify, SETTLE_MS)
    }

    /// As [`Self::new`], with the parts that tests replace.
    pub(super) fn with(options: StoreOptions, inotify: Option<Arc<OwnedFd>>, settle_ms: i64) -> Arc<Self> {
        let tree = WatchTree::new(inotify.clone(), options.watches_max);
        let index = Index::new(tree, options.entries_max);
        Arc::new(Self {
            draining: index.draining(),
            index: Mutex::new(index),
            contents: ContentBudget::new(options.content_bytes_max),
            memory: ContentMemory::new(options.pages, options.content_bytes_max),
            facts: FolderFacts::new(),
            folder_looks: FolderLooks::new(),
            descriptors: ContentBudget::new(options.descriptors_max),
            options,
            inotify,
            hints: SweepHints::default(),
            settle_ms,
            sites: AtomicU64::new(0),
        })
    }

    /// The memory of contents.
    pub(crate) fn memory(&self) -> &ContentMemory {
        &self.memory
    }

    /// The kind of pages that hold contents, for a line at start; `None` if the options ask for
    /// none.
    pub fn describe_memory(&self) -> Option<&str> {
        self.memory.describe()
    }

    /// The bounds of the store.
    pub fn options(&self) -> &StoreOptions {
        &self.options
    }

    /// A descriptor that becomes readable when [`Self::handle_events`] has work; `None` without
    /// inotify.
    pub fn notify_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(|inotify| inotify.as_fd())
    }

    /// Handles pending kernel events; never waits. Any thread may call this. A core should call
    /// this before it answers requests that the same poll returned.
    pub fn handle_events(&self) {
        self.lock().drain();
    }

    /// Waits until the core that read events has also marked the affected entries. Between the read
    /// and the mark, another core would see neither the event nor the mark.
    #[inline]
    pub(super) fn wait_for_events(&self) {
        if self.draining.load(Ordering::Acquire) {
            drop(self.lock());
        }
    }

    /// Present usage, for metrics.
    pub fn usage(&self) -> StoreUsage {
        let index = self.lock();
        StoreUsage {
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

    /// A counter that grows with each eviction.
    #[inline]
    pub(super) fn evictions(&self) -> u64 {
        self.hints.evictions.load(Ordering::Relaxed)
    }

    /// A counter that grows when [`Self::expire`] removes entries.
    pub(super) fn expiries(&self) -> u64 {
        self.hints.expiries.load(Ordering::Relaxed)
    }

    /// Removes the entries of files that no request used lately and whose removal no event reports.
    /// Cores call this about once a second, and a single core searches. The caller drops the
    /// entries where waiting is allowed, because closing a file may wait.
    pub(super) fn expire(&self, now_ms: u64) -> Vec<Arc<Entry>> {
        let due = |last_ms: u64| (now_ms.saturating_sub(last_ms) >= EXPIRE_MS).then_some(now_ms);
        if self.hints.expired_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, due).is_err() {
            return Vec::new();
        }
        let expired = self.lock().expire(now_ms.saturating_sub(UNWATCHED_FILE_MS));
        if !expired.is_empty() {
            self.hints.expiries.fetch_add(1, Ordering::Relaxed);
        }
        expired
    }

    /// Closes a site. If the site had entries, the counter of evictions moves, because the cores'
    /// maps may still hold these entries.
    pub(super) fn close(&self, site: SiteId) {
        if self.lock().close(site) {
            self.hints.evictions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Reserves room for a content of `bytes`. Without room, the store evicts other contents. Their
    /// bytes are free once the cores have dropped their references too.
    pub(super) fn charge_content(&self, bytes: u64) -> Option<Charge> {
        self.charge(&self.contents, bytes, |holdings| holdings.content_bytes)
    }

    /// Reserves room for another descriptor.
    pub(super) fn charge_descriptor(&self) -> Option<Charge> {
        self.charge(&self.descriptors, 1, |holdings| holdings.descriptors)
    }

    fn charge(&self, budget: &Arc<ContentBudget>, amount: u64, part: fn(Holdings) -> u64) -> Option<Charge> {
        if let Some(charge) = budget.take(amount) {
            return Some(charge);
        }
        if amount > budget.max() {
            return None;
        }
        let mut index = self.lock();
        // Evict a good part at once, because each core then sweeps its whole map. Evict no more
        // while the cores are still sweeping.
        let wanted = budget.max().saturating_sub(amount.max(budget.max() / EVICTED_PART));
        let mut evicted = false;
        while part(index.holdings()) > wanted && index.evict(|entry| part(entry.holdings()) > 0) {
            evicted = true;
        }
        drop(index);
        if evicted {
            self.hints.evictions.fetch_add(1, Ordering::Relaxed);
        }
        budget.take(amount)
    }
}

/// Usage of a store at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// Folders open for serving.
    pub sites: usize,
    /// Paths in the index, including paths that do not exist.
    pub entries: usize,
    /// Folders watched.
    pub watches: usize,
    /// Contents in memory, in bytes, including stale contents that a core still sends.
    pub content_bytes: u64,
    /// Files held open, including stale files that a core still sends.
    pub descriptors: u64,
    /// Times that the kernel lost events, after which all paths are resolved again.
    pub overflows: u64,
}
