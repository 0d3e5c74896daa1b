//! One core's map from paths, as they stand in requests, to what they resolve to: the hot path.
//!
//! A hit hashes the path, compares it and reads two flags; it decodes, allocates, locks and writes nothing that other
//! cores read. Whatever else is needed is a [`Job`]. The map is bounded by itself, because one file has any number of
//! spellings. Tested in `tests/`.

use super::{
    entry::Entry,
    index::Target,
    load::{Checked, Job, Loaded},
    site::Site,
};
use foldhash::fast::RandomState;
use slab::Slab;
use std::{collections::HashMap, ops::Deref, sync::Arc};
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
    site: Arc<Site>,
    by_path: HashMap<Arc<[u8]>, usize, RandomState>,
    slots: Slab<Slot>,
    /// Where to go on looking for what is least used.
    hand: usize,
    /// What [`Site::evictions`] was when all slots were last looked at.
    swept: u64,
    decoded: Vec<u8>,
}

struct Slot {
    path: Arc<[u8]>,
    handle: Handle,
    /// Milliseconds on the server's clock when it was last looked up.
    checked_ms: u64,
    used: bool,
}

impl CoreCache {
    /// An empty one.
    pub fn new(site: Arc<Site>) -> Self {
        Self { site, by_path: HashMap::default(), slots: Slab::new(), hand: 0, swept: 0, decoded: Vec::new() }
    }

    /// The site it is a part of the cache of.
    pub fn site(&self) -> &Arc<Site> {
        &self.site
    }

    /// What `raw_path` is, the path of a request's target before decoding and without query. `now_ms` is the server's
    /// clock: any that does not go back, the same for all cores.
    #[inline]
    pub fn lookup(&mut self, raw_path: &[u8], now_ms: u64) -> Lookup<'_> {
        self.site.wait_for_events();
        let Some(&key) = self.by_path.get(raw_path) else { return self.miss(raw_path, now_ms) };
        let slot = &mut self.slots[key];
        let entry = &slot.handle;
        if entry.is_stale() {
            self.remove(key);
            return self.miss(raw_path, now_ms);
        }
        entry.touch();
        slot.used = true;
        let told = entry.is_told();
        if told && now_ms.saturating_sub(slot.checked_ms) < self.site.options.recheck_ms {
            return Lookup::Hit(&self.slots[key].handle);
        }
        if told {
            // One of those who ask now looks; the others go on with what nobody has told to be wrong.
            slot.checked_ms = now_ms;
        }
        self.miss(raw_path, now_ms)
    }

    #[cold]
    fn miss(&mut self, raw_path: &[u8], now_ms: u64) -> Lookup<'_> {
        let decoded = match path::decode(raw_path, &mut self.decoded) {
            Ok(decoded) => decoded,
            Err(error) => return Lookup::Never(error.status()),
        };
        let target = if decoded.has_dotfile { Target::Hidden } else { Target::Path(decoded.bytes.into()) };
        Lookup::Miss(Job::new(&self.site, raw_path, target, now_ms))
    }

    /// Remembers what a job has found, if that may be used again, and hands it over.
    pub fn insert(&mut self, loaded: Loaded) -> Handle {
        let Loaded { raw, checked: Checked { entry, at_ms } } = loaded;
        let known = self.by_path.get(&*raw).copied();
        if let Some(key) = known {
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
        while self.slots.len() >= self.site.options.entries_max.max(1) {
            self.evict();
        }
        let path: Arc<[u8]> = raw.into();
        let slot = Slot { path: path.clone(), handle: handle.clone(), checked_ms: at_ms, used: true };
        let key = self.slots.insert(slot);
        self.by_path.insert(path, key);
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
        let evictions = self.site.evictions();
        if self.swept == evictions {
            return;
        }
        self.swept = evictions;
        let by_path = &mut self.by_path;
        self.slots.retain(|_, slot| {
            let keep = !slot.handle.is_stale();
            if !keep {
                by_path.remove(&slot.path);
            }
            keep
        });
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
        self.by_path.remove(&slot.path);
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
