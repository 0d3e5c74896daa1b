//! Colors by key: a color for each user, account or file, for as long as the key is in use.
//!
//! Every key has its own color, so two keys never wait for each other by accident. The map forgets
//! a color without handles and queued events, and makes a new color when the key returns. Tested in
//! `tests/model.rs`.

use crate::{Color, Handle, color_meta::RuntimeQueue};
use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::{BuildHasher, Hash},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

/// Number of parts of the map, each with a lock. Of 16 cores that look keys up at once, a core
/// finds its lock taken in less than one of four lookups (15 of 64).
const SHARDS: usize = 64;

/// Number of entries below which a part is not swept for ended colors.
const SWEEP_LEAST: usize = 32;

/// A map from keys to colors. Cheap to clone; a clone is the same map.
pub struct Keyed<K> {
    handle: Handle,
    /// Bound on events of each new color.
    bound: Option<usize>,
    shards: Arc<[Mutex<KeyShard<K>>]>,
    hasher: RandomState,
}

struct KeyShard<K> {
    colors: HashMap<K, Weak<RuntimeQueue>>,
    /// Number of entries at the next sweep.
    sweep_at: usize,
}

impl<K> Clone for Keyed<K> {
    fn clone(&self) -> Self {
        let (handle, shards, hasher) = (self.handle.clone(), self.shards.clone(), self.hasher.clone());
        Self { handle, bound: self.bound, shards, hasher }
    }
}

impl Handle {
    /// A new map from keys to colors.
    pub fn keyed<K: Eq + Hash>(&self) -> Keyed<K> {
        let shard = |_| Mutex::new(KeyShard { colors: HashMap::new(), sweep_at: SWEEP_LEAST });
        let shards = (0..SHARDS).map(shard).collect();
        Keyed { handle: self.clone(), bound: None, shards, hasher: RandomState::new() }
    }
}

impl<K: Eq + Hash + Clone> Keyed<K> {
    /// Bounds the events of each color that this map makes from now on ([`Color::bounded`]). Colors
    /// made through an earlier clone have no bound.
    pub fn bounded(mut self, events: usize) -> Self {
        self.bound = Some(events);
        self
    }

    /// The color of `key`: the same color as long as a handle exists or events are queued.
    pub fn color_of(&self, key: &K) -> Color {
        let shard = self.hasher.hash_one(key) as usize % SHARDS;
        let mut shard = locked(&self.shards[shard]);
        if let Some(queue) = shard.colors.get(key).and_then(Weak::upgrade) {
            return Color { queue, shared: self.handle.shared.clone() };
        }
        let color = self.handle.color();
        let color = self.bound.into_iter().fold(color, Color::bounded);
        shard.colors.insert(key.clone(), Arc::downgrade(&color.queue));
        shard.sweep();
        color
    }

    /// Number of keys whose colors have not been forgotten; a hint.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| locked(shard).colors.len()).sum()
    }

    /// Whether the map is empty; a hint.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Locks a shard, also after a panic: the caller's key may panic in `eq` or `clone`, and the map
/// stays valid then.
fn locked<K>(shard: &Mutex<KeyShard<K>>) -> MutexGuard<'_, KeyShard<K>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K: Eq + Hash> KeyShard<K> {
    /// Forgets ended colors once they may be half of all entries, so the cost per key is constant.
    fn sweep(&mut self) {
        if self.colors.len() >= self.sweep_at {
            self.colors.retain(|_, color| color.strong_count() > 0);
            self.sweep_at = (2 * self.colors.len()).max(SWEEP_LEAST);
        }
    }
}
