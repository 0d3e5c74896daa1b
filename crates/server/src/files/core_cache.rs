//! One core's map from paths of all sites, as they stand in requests, to what they resolve to: the hot path.
//!
//! A hit hashes the path, compares it and reads two flags; it decodes, allocates, locks and writes nothing that other
//! cores read. Whatever else is needed is a [`Job`]. The map is bounded by itself, because one file has any number of
//! spellings. Tested in `tests/`.

use super::{
    entry::Entry,
    index::{SiteId, Target},
    load::{Checked, Job, Loaded},
    site::Site,
    store::Store,
};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use slab::Slab;
use std::{
    hash::{BuildHasher, Hasher},
    ops::Deref,
    sync::Arc,
};
use vermeil_http::{Status, path};

/// Slots that [`CoreCache::tick`] looks at. Guess: some 20 µs of cache misses, and the whole of a full map in a minute.
const TICK_SLOTS: usize = 1024;

/// Longest path, as it stands in a request, that is remembered, in bytes. Longer ones are resolved each time. Guess:
/// longer than what people write, and with the default of `entries_max` 64 MB at worst.
const KEY_BYTES_MAX: usize = 1024;

/// An entry as one core holds it. A clone writes a counter of that core's own, so holding one while sending costs the other
/// cores nothing.
#[derive(Clone, Debug)]
pub struct Handle(Arc<Shared>);

/// The entry that all cores share, behind a counter of the core's own.
#[derive(Debug)]
struct Shared(Arc<Entry>);

impl Deref for Handle {
    type Target = Entry;

    #[inline]
    fn deref(&self) -> &Entry {
        &self.0.0
    }
}

/// What a path is.
pub enum Lookup<'a> {
    /// This, and nobody has told otherwise.
    Hit(&'a Handle),
    /// It has to be looked at: [`Job::try_now`], if that would block [`Job::run`] elsewhere, then
    /// [`CoreCache::insert`].
    Miss(Job),
    /// It names nothing and never will: the status of the answer.
    Never(Status),
}

/// One core's part of the cache.
pub struct CoreCache {
    store: Arc<Store>,
    hasher: RandomState,
    /// Keys of `slots`, by site and path.
    by_path: HashTable<usize>,
    slots: Slab<Slot>,
    /// Where to go on looking for what is least used.
    hand: usize,
    /// What [`Store::evictions`] was when all slots were last looked at.
    swept: u64,
    decoded: Vec<u8>,
    misses: u64,
}

struct Slot {
    site: SiteId,
    path: Box<[u8]>,
    handle: Handle,
    /// Milliseconds on the server's clock when it was last looked up.
    checked_ms: u64,
    used: bool,
}

impl Slot {
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
    /// An empty one.
    pub fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            hasher: RandomState::default(),
            by_path: HashTable::new(),
            slots: Slab::new(),
            hand: 0,
            swept: 0,
            decoded: Vec::new(),
            misses: 0,
        }
    }

    /// What it is a part of the cache of.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    #[inline]
    fn key(&self, site: SiteId, path: &[u8]) -> Option<usize> {
        let is_it = |key: &usize| self.slots[*key].is(site, path);
        self.by_path.find(hash(&self.hasher, site, path), is_it).copied()
    }

    /// What `raw_path` of `site` is, the path of a request's target before decoding and without query. `now_ms` is the
    /// server's clock: any that does not go back, the same for all cores.
    #[inline]
    pub fn lookup(&mut self, site: &Arc<Site>, raw_path: &[u8], now_ms: u64) -> Lookup<'_> {
        self.store.wait_for_events();
        let Some(key) = self.key(site.id, raw_path) else { return self.miss(site, raw_path, now_ms) };
        let slot = &mut self.slots[key];
        let entry = &slot.handle;
        if entry.is_stale() {
            self.remove(key);
            return self.miss(site, raw_path, now_ms);
        }
        entry.touch();
        slot.used = true;
        let told = entry.is_told();
        if told && now_ms.saturating_sub(slot.checked_ms) < self.store.options.recheck_ms {
            return Lookup::Hit(&self.slots[key].handle);
        }
        if told {
            // One of those who ask now looks; the others go on with what nobody has told to be wrong.
            slot.checked_ms = now_ms;
        }
        self.miss(site, raw_path, now_ms)
    }

    #[cold]
    fn miss(&mut self, site: &Arc<Site>, raw_path: &[u8], now_ms: u64) -> Lookup<'_> {
        self.misses += 1;
        let decoded = match path::decode(raw_path, &mut self.decoded) {
            Ok(decoded) => decoded,
            Err(error) => return Lookup::Never(error.status()),
        };
        let target = if decoded.has_dotfile { Target::Hidden } else { Target::Path(decoded.bytes.into()) };
        Lookup::Miss(Job::new(site, raw_path, target, now_ms))
    }

    /// Remembers what a job has found, if that may be used again, and hands it over.
    pub fn insert(&mut self, loaded: Loaded) -> Handle {
        let Loaded { site, raw, checked: Checked { entry, at_ms } } = loaded;
        if let Some(key) = self.key(site, &raw) {
            let slot = &mut self.slots[key];
            if Arc::ptr_eq(&slot.handle.0.0, &entry) {
                slot.checked_ms = slot.checked_ms.max(at_ms);
                return slot.handle.clone();
            }
            self.remove(key);
        }
        let handle = Handle(Arc::new(Shared(entry)));
        if handle.is_stale() || raw.len() > KEY_BYTES_MAX {
            return handle;
        }
        self.sweep_if_asked();
        while self.slots.len() >= self.store.options.entries_max.max(1) {
            self.evict();
        }
        let hash_of_path = hash(&self.hasher, site, &raw);
        let slot = Slot { site, path: raw, handle: handle.clone(), checked_ms: at_ms, used: true };
        let key = self.slots.insert(slot);
        let Self { hasher, by_path, slots, .. } = self;
        by_path.insert_unique(hash_of_path, key, |key| hash(hasher, slots[*key].site, &slots[*key].path));
        handle
    }

    /// Lets go of what is out of date, some of it at a time. To be called about once a second, also by a core that has
    /// nothing to do: what it holds counts against the bounds of all.
    pub fn tick(&mut self) {
        self.sweep_if_asked();
        for _ in 0..TICK_SLOTS.min(self.slots.capacity()) {
            let key = self.advance();
            if self.slots.get(key).is_some_and(|slot| slot.handle.is_stale()) {
                self.remove(key);
            }
        }
    }

    /// Looks at all slots, if what they hold is needed elsewhere.
    fn sweep_if_asked(&mut self) {
        let evictions = self.store.evictions();
        if self.swept == evictions {
            return;
        }
        self.swept = evictions;
        let stale: Vec<usize> =
            self.slots.iter().filter(|(_, slot)| slot.handle.is_stale()).map(|(key, _)| key).collect();
        for key in stale {
            self.remove(key);
        }
    }

    /// Removes the next slot that was not used since it was last looked at. There must be one at all.
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

    /// How often a path had to be looked up, or looked at again.
    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// How many paths it remembers.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether it remembers nothing.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}
