//! The index of resolved paths of all cores, with the dependencies of each. A single lock protects
//! the index. Only misses and events take the lock.
//!
//! A look-up in progress has a record like a finished look-up. The record depends on each name
//! before the look-up reads the name, so a change of the name marks the record. [`Index::publish`]
//! handles all pending events before it accepts a result. The index also enforces the bounds by
//! evicting unused entries (second chance), and closes unused files that no event reports.
//! `index/watch.rs` has the tree of watches. Tested in `tests/changes.rs`, `tests/bounds.rs` and
//! `tests/links.rs`.

use super::{
    entry::{Checked, Entry, Holdings, Lasting},
    root::SiteRoot,
};
use foldhash::fast::RandomState;
use slab::Slab;
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    mem,
    os::fd::BorrowedFd,
    sync::Arc,
    sync::atomic::{AtomicBool, Ordering},
};

mod watch;

pub(super) use watch::{Adoption, Descent, RecordId, WatchTree};
use watch::{Drained, NodeId, ParentNode};

/// Longest path in the caches, in bytes: the decoded path in the index, the path of the request in
/// the maps of the cores. Longer paths are resolved each time. With the default of `entries_max`
/// the keys of a map take 32 MB at worst.
pub(super) const KEY_BYTES_MAX: usize = 1024;

/// Records that a call of [`Index::expire`] examines: some 100 µs of cache misses under the lock.
const EXPIRE_RECORDS: usize = 1024;

/// The number of a site. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SiteId(pub(super) u64);

/// The target of a look-up in a site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum LookTarget {
    /// A decoded path, with its slash at the start and perhaps at the end.
    Path(Arc<[u8]>),
    /// Any path that is never served, for example a dotfile.
    Hidden,
    /// The site's own page for a 404.
    NotFoundPage,
}

impl LookTarget {
    /// Whether the path is too long for the caches.
    pub(super) fn is_long(&self) -> bool {
        matches!(self, Self::Path(path) if path.len() > KEY_BYTES_MAX)
    }
}

pub(super) struct Index {
    tree: WatchTree,
    sites: HashMap<SiteId, Opened, RandomState>,
    records: Slab<IndexRecord>,
    finished: HashMap<(SiteId, LookTarget), RecordId, RandomState>,
    /// Position of the eviction scan.
    hand: usize,
    /// Finished records whose entries [hold a file](Entry::holds_unwatched_file).
    unwatched_files: BTreeSet<RecordId>,
    /// Position of the scan of `unwatched_files`.
    expire_from: RecordId,
    entries_max: usize,
    concerned: Vec<RecordId>,
    holdings: Holdings,
    overflows: u64,
    /// Whether the index is marking the events read from the kernel. Shared with readers that do
    /// not take the lock.
    draining: Arc<AtomicBool>,
}

/// An open site.
struct Opened {
    /// Replaced when the root's path leads elsewhere.
    root: Arc<SiteRoot>,
    /// Whether the root is watched, as far as possible. The first record watches the root.
    is_watch_asked: bool,
    /// All records of the site.
    records: HashSet<RecordId, RandomState>,
}

struct IndexRecord {
    site: SiteId,
    state: IndexState,
    depends_on: Vec<(NodeId, Arc<[u8]>)>,
}

enum IndexState {
    /// A look-up in progress, and whether a dependency changed meanwhile.
    Pending {
        changed: bool,
    },
    Finished(LookTarget, Checked),
}

impl Index {
    pub(super) fn new(tree: WatchTree, entries_max: usize) -> Self {
        Self {
            tree,
            sites: HashMap::default(),
            records: Slab::new(),
            finished: HashMap::default(),
            hand: 0,
            unwatched_files: BTreeSet::new(),
            expire_from: 0,
            entries_max,
            concerned: Vec::new(),
            holdings: Holdings::default(),
            overflows: 0,
            draining: Arc::default(),
        }
    }

    /// A flag that is set while events read from the kernel may not be marked yet.
    pub(super) fn draining(&self) -> Arc<AtomicBool> {
        self.draining.clone()
    }

    /// The root of an open site.
    pub(super) fn root(&self, site: SiteId) -> &Arc<SiteRoot> {
        &self.sites[&site].root
    }

    /// Watches the root of an open site if possible, and returns whether the root is watched.
    pub(super) fn watch_root(&mut self, site: SiteId) -> bool {
        if let Some(opened) = self.sites.get_mut(&site).filter(|opened| !opened.is_watch_asked) {
            opened.is_watch_asked = true;
            self.tree.set_root(site, opened.root.watchable());
        }
        self.tree.has_root(site)
    }

    /// Number of open sites.
    pub(super) fn sites(&self) -> usize {
        self.sites.len()
    }

    /// Number of times that the kernel lost events.
    pub(super) fn overflows(&self) -> u64 {
        self.overflows
    }

    /// Sum of the budget amounts of all current entries.
    pub(super) fn holdings(&self) -> Holdings {
        self.holdings
    }

    pub(super) fn watches(&self) -> usize {
        self.tree.watches()
    }

    pub(super) fn entries(&self) -> usize {
        self.finished.len()
    }

    /// Sets the root of `site`. All entries from the old root become stale.
    pub(super) fn set_root(&mut self, site: SiteId, root: Arc<SiteRoot>) {
        self.change_site(site);
        self.tree.set_root(site, None);
        match self.sites.get_mut(&site) {
            Some(opened) => (opened.root, opened.is_watch_asked) = (root, false),
            None => {
                let opened = Opened { root, is_watch_asked: false, records: HashSet::default() };
                self.sites.insert(site, opened);
            }
        }
    }

    /// Removes a site that has no users. Returns whether the site had entries.
    pub(super) fn close(&mut self, site: SiteId) -> bool {
        let had_entries = self.sites.get(&site).is_some_and(|opened| !opened.records.is_empty());
        self.change_site(site);
        self.tree.set_root(site, None);
        self.sites.remove(&site);
        had_entries
    }

    pub(super) fn find(&self, site: SiteId, target: &LookTarget) -> Option<Checked> {
        match &self.records[*self.finished.get(&(site, target.clone()))?].state {
            IndexState::Finished(_, checked) => Some(checked.clone()),
            IndexState::Pending { .. } => None,
        }
    }

    /// Whether `entry` is the current result for `target`.
    fn is_finished(&self, site: SiteId, target: &LookTarget, entry: &Arc<Entry>) -> bool {
        self.find(site, target).is_some_and(|found| Arc::ptr_eq(&found.entry, entry))
    }

    /// Records that `entry` was correct at `now_ms`.
    pub(super) fn confirm(&mut self, site: SiteId, target: &LookTarget, entry: &Arc<Entry>, now_ms: u64) {
        let Some(&id) = self.finished.get(&(site, target.clone())) else { return };
        if let IndexState::Finished(_, found) = &mut self.records[id].state
            && Arc::ptr_eq(&found.entry, entry)
        {
            found.at_ms = found.at_ms.max(now_ms);
        }
    }

    /// Begins a look-up in an open site.
    pub(super) fn begin(&mut self, site: SiteId) -> RecordId {
        let state = IndexState::Pending { changed: false };
        let id = self.records.insert(IndexRecord { site, state, depends_on: Vec::new() });
        self.sites.get_mut(&site).expect("it is open").records.insert(id);
        id
    }

    /// Ends a look-up without a result.
    pub(super) fn abandon(&mut self, id: RecordId) {
        self.remove(id);
    }

    /// Makes `id` depend on the last component of `path`, if all folders above are watched.
    /// Otherwise returns the next step.
    pub(super) fn descend<'p>(&mut self, id: RecordId, path: &'p [u8]) -> Descent<'p> {
        let site = self.records[id].site;
        self.watch_root(site);
        let descent = self.tree.descend(site, path);
        if let Descent::Complete { node, name } = descent {
            self.attach(id, node, name);
        }
        descent
    }

    pub(super) fn adopt(&mut self, parent: ParentNode, name: &[u8], folder: BorrowedFd<'_>) -> Adoption {
        self.tree.adopt(parent, name, folder)
    }

    /// Makes `id` depend on `name` below `parent`, which does not lead to a folder. Returns whether
    /// `parent` is still current.
    pub(super) fn depend_on_missing(&mut self, id: RecordId, parent: ParentNode, name: &[u8]) -> bool {
        let unchanged = self.tree.unchanged(parent);
        if unchanged {
            self.attach(id, parent.node, name);
        }
        unchanged
    }

    fn attach(&mut self, id: RecordId, node: NodeId, name: &[u8]) {
        if let Some(name) = self.tree.attach(id, node, name) {
            self.records[id].depends_on.push((node, name));
        }
    }

    /// Ends a look-up with a result. Returns the entry to use: an equal entry that another core
    /// finished first, or this entry. Returns `None` if a dependency changed meanwhile.
    pub(super) fn publish(
        &mut self,
        id: RecordId,
        target: &LookTarget,
        entry: &Arc<Entry>,
        now_ms: u64,
    ) -> Option<Arc<Entry>> {
        self.drain();
        if matches!(self.records[id].state, IndexState::Pending { changed: true }) {
            self.remove(id);
            return None;
        }
        if entry.lasting() == Lasting::Once {
            self.remove(id);
            return Some(entry.clone());
        }
        let site = self.records[id].site;
        if let Some(Checked { entry: found, .. }) = self.find(site, target) {
            if found.lasting() == Lasting::Quiescent && !found.is_stale() && found.is_like(entry) {
                self.remove(id);
                return Some(found);
            }
            self.refute(site, target, &found);
        }
        let Holdings { content_bytes, descriptors } = entry.holdings();
        self.holdings.content_bytes += content_bytes;
        self.holdings.descriptors += descriptors;
        self.records[id].state =
            IndexState::Finished(target.clone(), Checked { entry: entry.clone(), at_ms: now_ms });
        self.finished.insert((site, target.clone()), id);
        if entry.holds_unwatched_file() {
            self.unwatched_files.insert(id);
        }
        while self.finished.len() > self.entries_max && self.evict(|_| true) {}
        Some(entry.clone())
    }

    /// Marks `entry` stale and removes its record, because a check found the entry wrong.
    pub(super) fn refute(&mut self, site: SiteId, target: &LookTarget, entry: &Arc<Entry>) {
        entry.set_stale();
        if self.is_finished(site, target, entry) {
            let id = self.finished[&(site, target.clone())];
            self.remove(id);
        }
    }

    /// Handles pending kernel events; never waits.
    pub(super) fn drain(&mut self) {
        // Set the flag before the read. A core that no longer finds the events in the kernel's
        // queue then sees the flag, because the kernel's lock on that queue orders both.
        self.draining.store(true, Ordering::SeqCst);
        self.take_events();
        self.draining.store(false, Ordering::Release);
    }

    fn take_events(&mut self) {
        let mut concerned = mem::take(&mut self.concerned);
        let drained = self.tree.drain(&mut concerned);
        // One record at a time, because a record that ends releases its watches but not the records
        // after it.
        for id in concerned.drain(..) {
            self.change(id);
        }
        self.concerned = concerned;
        if drained == Drained::Lost {
            self.lose_events();
        }
    }

    /// Restarts all sites after the kernel lost events, because any file may have changed.
    pub(super) fn lose_events(&mut self) {
        self.overflows += 1;
        let sites: Vec<_> = self.sites.iter().map(|(site, opened)| (*site, opened.root.clone())).collect();
        for (site, root) in sites {
            self.set_root(site, root);
        }
    }

    /// Marks a pending record as changed, or removes a finished record.
    fn change(&mut self, id: RecordId) {
        match self.records.get_mut(id).map(|record| &mut record.state) {
            Some(IndexState::Pending { changed }) => *changed = true,
            Some(IndexState::Finished(..)) => self.remove(id),
            None => {}
        }
    }

    fn change_site(&mut self, site: SiteId) {
        let Some(opened) = self.sites.get(&site) else { return };
        let all: Vec<_> = opened.records.iter().copied().collect();
        for id in all {
            self.change(id);
        }
    }

    fn remove(&mut self, id: RecordId) {
        let record = self.records.remove(id);
        if let Some(opened) = self.sites.get_mut(&record.site) {
            opened.records.remove(&id);
        }
        for (node, name) in record.depends_on {
            self.tree.detach(id, node, &name);
        }
        if let IndexState::Finished(target, Checked { entry, .. }) = record.state {
            self.finished.remove(&(record.site, target));
            self.unwatched_files.remove(&id);
            entry.set_stale();
            let Holdings { content_bytes, descriptors } = entry.holdings();
            self.holdings.content_bytes -= content_bytes;
            self.holdings.descriptors -= descriptors;
        }
    }

    /// Removes entries that [hold a file](Entry::holds_unwatched_file) and were last used before
    /// `before_ms`. A call examines at most [`EXPIRE_RECORDS`] entries. Returns the removed
    /// entries, so that no file is closed under the lock.
    pub(super) fn expire(&mut self, before_ms: u64) -> Vec<Arc<Entry>> {
        let from = self.unwatched_files.range(self.expire_from..);
        let examined: Vec<RecordId> = from.take(EXPIRE_RECORDS).copied().collect();
        self.expire_from = match examined.last() {
            Some(last) if examined.len() == EXPIRE_RECORDS => last + 1,
            _ => 0,
        };
        let mut expired = Vec::new();
        for id in examined {
            // Each use confirms the entry, because no event reports its changes.
            if let IndexState::Finished(_, last) = &self.records[id].state
                && last.at_ms < before_ms
            {
                expired.push(last.entry.clone());
                self.remove(id);
            }
        }
        expired
    }

    /// Evicts the next entry that satisfies `which` and was not used since the last scan. Returns
    /// `false` if no entry satisfies `which`.
    pub(super) fn evict(&mut self, which: impl Fn(&Entry) -> bool) -> bool {
        // The first round clears the marks of use. The second round finds an entry without a mark.
        for _ in 0..2 * self.records.capacity() {
            self.hand = if self.hand + 1 < self.records.capacity() { self.hand + 1 } else { 0 };
            let record = self.records.get(self.hand);
            let Some(IndexState::Finished(_, Checked { entry, .. })) = record.map(|record| &record.state)
            else {
                continue;
            };
            if which(entry) && !entry.take_used() {
                self.remove(self.hand);
                return true;
            }
        }
        false
    }
}
