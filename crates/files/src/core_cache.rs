//! The hot path: a core's map from request paths, of all sites, to shared entries.
//!
//! A hit hashes the path, compares the path and reads two flags. A hit decodes, allocates and locks
//! nothing. Apart from the mark of use, which is set once per eviction scan, a hit writes nothing
//! that other cores read. All other work is a [`PathJob`]. The map has a bound of its own, because
//! a file has any number of spellings. Tested in `tests/`.

use super::{
    doorkeeper::Doorkeeper,
    entry::{Checked, Entry},
    index::{KEY_BYTES_MAX, LookTarget, SiteId},
    load::{LoadedEntry, PathAdmission, PathJob, UnopenedFolder, UnopenedJob},
    site::Site,
    store::FileStore,
};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use slab::Slab;
use std::{
    hash::{BuildHasher, Hasher},
    ops::Deref,
    sync::Arc,
};
use vermeil_ablation::Mechanism;
use vermeil_http::{
    Status,
    path::{self, PathError},
};

/// Slots that a [`CoreCache::tick`] checks: some 20 µs of cache misses, and the whole of a full map
/// in a minute.
const TICK_SLOTS: usize = 1024;

/// Requests for a path within a second that admit the path. An admission costs about as much as
/// three cold look-ups, and paths that come less than once a second also reach two requests within
/// a second at times: with a bound of 2, evenly random files cost a fifth more than without a cache
/// (bench `tail`).
pub(super) const ADMITTED_REQUESTS: u8 = 4;

/// A core's reference to an entry. A clone writes a counter that belongs to the core. Other cores
/// therefore pay nothing while this core holds the entry to send it.
#[derive(Clone, Debug)]
pub struct EntryHandle(Arc<SharedEntry>);

/// The entry that all cores share, behind a reference counter of this core.
#[derive(Debug)]
struct SharedEntry(Arc<Entry>);

impl Deref for EntryHandle {
    type Target = Entry;

    #[inline]
    fn deref(&self) -> &Entry {
        &self.0.0
    }
}

impl EntryHandle {
    /// The entry, if it [holds a file](Entry::holds_unwatched_file) whose close may wait, for
    /// example for the server of a network disk.
    fn to_close(&self) -> Option<Arc<Entry>> {
        self.holds_unwatched_file().then(|| self.0.0.clone())
    }
}

/// A handle of an entry that no cache keeps.
impl From<Entry> for EntryHandle {
    fn from(entry: Entry) -> Self {
        Self(Arc::new(SharedEntry(Arc::new(entry))))
    }
}

/// The result of a look-up in the map.
pub enum Lookup<'a> {
    /// The entry is current, because no event reported a change.
    Hit(&'a EntryHandle),
    /// The path must be resolved: call [`PathJob::try_now`], then [`PathJob::run`] on another
    /// thread if the first call would block, then [`CoreCache::insert`].
    Miss(PathJob),
    /// The path can never name a file: the status of the answer.
    Never(Status),
}

/// The cache of a single core.
pub struct CoreCache {
    store: Arc<FileStore>,
    hasher: RandomState,
    /// Keys of `slots`, by site and path.
    by_path: HashTable<usize>,
    slots: Slab<CacheSlot>,
    /// Position of the eviction scan.
    hand: usize,
    /// Value of [`FileStore::evictions`] at the last sweep of all slots.
    swept: u64,
    /// Value of [`FileStore::expiries`] at the last sweep of all slots.
    swept_expiries: u64,
    decoded: Vec<u8>,
    hits: u64,
    misses: u64,
    doorkeeper: Doorkeeper,
}

struct CacheSlot {
    site: SiteId,
    path: Box<[u8]>,
    handle: EntryHandle,
    /// Milliseconds on the server's clock at the last check of the entry.
    checked_ms: u64,
    /// Set by a hit. See [`Entry`]'s mark.
    used: bool,
}

impl CacheSlot {
    #[inline]
    fn is(&self, site: SiteId, path: &[u8]) -> bool {
        self.site == site && *self.path == *path
    }
}

/// The hash of a path of a site.
#[inline]
fn hash(hasher: &RandomState, site: SiteId, path: &[u8]) -> u64 {
    let mut state = hasher.build_hasher();
    state.write_u64(site.0);
    state.write(path);
    state.finish()
}

impl CoreCache {
    /// An empty cache.
    pub fn new(store: Arc<FileStore>) -> Self {
        Self {
            store,
            hasher: RandomState::default(),
            by_path: HashTable::new(),
            slots: Slab::new(),
            hand: 0,
            swept: 0,
            swept_expiries: 0,
            decoded: Vec::new(),
            hits: 0,
            misses: 0,
            doorkeeper: Doorkeeper::new(),
        }
    }

    /// The store that all cores share.
    pub fn store(&self) -> &Arc<FileStore> {
        &self.store
    }

    #[inline]
    fn key(&self, site: SiteId, path: &[u8]) -> Option<usize> {
        let is_it = |key: &usize| self.slots[*key].is(site, path);
        self.by_path.find(hash(&self.hasher, site, path), is_it).copied()
    }

    /// Looks up `raw_path` of `site`: the path of the request target, not decoded, without query.
    /// `now_ms` is a monotonic clock that all cores share.
    #[inline]
    pub fn lookup(&mut self, site: &Arc<Site>, raw_path: &[u8], now_ms: u64) -> Lookup<'_> {
        self.store.wait_for_events();
        let Some(key) = self.key(site.id, raw_path) else {
            let admission = self.admission(site.id, raw_path, now_ms);
            return self.miss(site, raw_path, now_ms, admission);
        };
        let admission = if self.slots[key].handle.is_candidate() {
            self.promotion(site.id, raw_path, now_ms)
        } else {
            PathAdmission::Admitted
        };
        let slot = &mut self.slots[key];
        let entry = &slot.handle;
        if entry.is_stale() {
            self.remove(key);
            return self.miss(site, raw_path, now_ms, admission);
        }
        entry.touch();
        slot.used = true;
        let told = entry.is_watched();
        let stays = !entry.is_candidate() || admission == PathAdmission::Passing;
        if told && stays && now_ms.saturating_sub(slot.checked_ms) < self.store.options.recheck_ms {
            self.hits += 1;
            return Lookup::Hit(&self.slots[key].handle);
        }
        if told {
            // Only this request rechecks. Until the recheck ends, other requests use the entry,
            // because no event reported a change.
            slot.checked_ms = now_ms;
        }
        self.miss(site, raw_path, now_ms, admission)
    }

    /// A job that looks up `raw_path` in a folder that stays closed.
    ///
    /// # Errors
    /// The path can never name a file: the status of the answer.
    pub fn look_past(
        &mut self,
        folder: UnopenedFolder,
        raw_path: &[u8],
        now_ms: u64,
    ) -> Result<UnopenedJob, Status> {
        self.misses += 1;
        Ok(UnopenedJob::new(folder, self.target(raw_path)?, now_ms))
    }

    /// The look-up that `raw_path` asks for.
    fn target(&mut self, raw_path: &[u8]) -> Result<LookTarget, Status> {
        let decoded = path::decode(raw_path, &mut self.decoded).map_err(PathError::status)?;
        Ok(if decoded.has_dotfile { LookTarget::Hidden } else { LookTarget::Path(decoded.bytes.into()) })
    }

    /// Whether a path that is not in the map may enter the caches.
    fn admission(&mut self, site: SiteId, raw_path: &[u8], now_ms: u64) -> PathAdmission {
        if Mechanism::Doorkeeper.is_off() {
            return PathAdmission::Admitted;
        }
        let requests = self.doorkeeper.count(hash(&self.hasher, site, raw_path), now_ms);
        if requests < ADMITTED_REQUESTS { PathAdmission::Passing } else { PathAdmission::Admitted }
    }

    /// Whether the file of a candidate gets a sealed copy now. Only one request of a window admits
    /// the path again, because the copy may fail, for example for want of room.
    #[cold]
    fn promotion(&mut self, site: SiteId, raw_path: &[u8], now_ms: u64) -> PathAdmission {
        let requests = self.doorkeeper.count(hash(&self.hasher, site, raw_path), now_ms);
        if requests == ADMITTED_REQUESTS { PathAdmission::Admitted } else { PathAdmission::Passing }
    }

    #[cold]
    fn miss(
        &mut self,
        site: &Arc<Site>,
        raw_path: &[u8],
        now_ms: u64,
        admission: PathAdmission,
    ) -> Lookup<'_> {
        self.misses += 1;
        match self.target(raw_path) {
            Ok(target) => Lookup::Miss(PathJob::new(site, raw_path, target, now_ms, admission)),
            Err(status) => Lookup::Never(status),
        }
    }

    /// Stores the result of a job, if the entry may be reused, and returns the entry.
    pub fn insert(&mut self, loaded: LoadedEntry) -> EntryHandle {
        let LoadedEntry { site, raw, checked: Checked { entry, at_ms } } = loaded;
        if let Some(key) = self.key(site, &raw) {
            let slot = &mut self.slots[key];
            if Arc::ptr_eq(&slot.handle.0.0, &entry) {
                slot.checked_ms = slot.checked_ms.max(at_ms);
                return slot.handle.clone();
            }
            self.remove(key);
        }
        let handle = EntryHandle(Arc::new(SharedEntry(entry)));
        if handle.is_stale() || raw.len() > KEY_BYTES_MAX {
            return handle;
        }
        if self.swept != self.store.evictions() {
            // Closes files here, because the budgets need their room at once.
            self.sweep();
        }
        while self.slots.len() >= self.store.options.entries_max.max(1) {
            self.evict();
        }
        let hash_of_path = hash(&self.hasher, site, &raw);
        let slot = CacheSlot { site, path: raw, handle: handle.clone(), checked_ms: at_ms, used: false };
        let key = self.slots.insert(slot);
        let Self { hasher, by_path, slots, .. } = self;
        by_path.insert_unique(hash_of_path, key, |key| hash(hasher, slots[*key].site, &slots[*key].path));
        handle
    }

    /// Removes some stale entries, and entries of files that no request used lately. Call this
    /// about once a second, also on an idle core, because stale entries count against the shared
    /// bounds. `now_ms` is the clock of [`lookup`](Self::lookup). Returns entries whose files may
    /// be on a network disk. A close may wait there, so drop the entries on a thread that may wait.
    pub fn tick(&mut self, now_ms: u64) -> Vec<Arc<Entry>> {
        let mut to_close = self.store.expire(now_ms);
        if self.swept != self.store.evictions() || self.swept_expiries != self.store.expiries() {
            to_close.extend(self.sweep());
        }
        for _ in 0..TICK_SLOTS.min(self.slots.capacity()) {
            let key = self.advance();
            let Some(slot) = self.slots.get(key).filter(|slot| slot.handle.is_stale()) else { continue };
            to_close.extend(slot.handle.to_close());
            self.remove(key);
        }
        to_close
    }

    /// Removes all stale slots. Returns their entries whose close may wait.
    fn sweep(&mut self) -> Vec<Arc<Entry>> {
        // Before the look at the slots, so that a later eviction asks for another sweep.
        (self.swept, self.swept_expiries) = (self.store.evictions(), self.store.expiries());
        let stale: Vec<usize> =
            self.slots.iter().filter(|(_, slot)| slot.handle.is_stale()).map(|(key, _)| key).collect();
        let to_close = stale.iter().filter_map(|&key| self.slots[key].handle.to_close()).collect();
        for key in stale {
            self.remove(key);
        }
        to_close
    }

    /// Removes the next slot that is stale or unused since the last scan. The map must not be
    /// empty.
    fn evict(&mut self) {
        loop {
            let key = self.advance();
            let Some(slot) = self.slots.get_mut(key) else { continue };
            if !std::mem::take(&mut slot.used) || slot.handle.is_stale() {
                return self.remove(key);
            }
        }
    }

    fn advance(&mut self) -> usize {
        self.hand = if self.hand + 1 < self.slots.capacity() { self.hand + 1 } else { 0 };
        self.hand
    }

    fn remove(&mut self, key: usize) {
        let slot = self.slots.remove(key);
        let found = self.by_path.find_entry(hash(&self.hasher, slot.site, &slot.path), |other| *other == key);
        found.expect("each slot has its path").remove();
    }

    /// Number of look-ups that found the path.
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// Number of look-ups that missed or needed a recheck.
    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// Number of paths in the map.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}
