//! Colors by key: one for each user, account, file, for as long as somebody uses it.
//!
//! Every key has a color of its own, so that no two keys ever wait for each other by accident. A color that nobody holds and
//! that has nothing queued is forgotten, and made anew when its key comes back. Tested in `tests/model.rs`.

use crate::{Color, Handle, color::Queue};
use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::{BuildHasher, Hash},
    sync::{Arc, Mutex, Weak},
};

/// Parts of the map, each with its lock. Guess: a few times the cores of most machines.
const SHARDS: usize = 64;

/// Entries of a part below which it is not looked through for colors that have ended.
const SWEEP_LEAST: usize = 32;

/// A map from keys to colors. Cheap to clone; a clone is the same map.
pub struct Keyed<K> {
    handle: Handle,
    /// Most events queued on each of its colors.
    bound: Option<usize>,
    shards: Arc<[Mutex<Shard<K>>]>,
    hasher: RandomState,
}

struct Shard<K> {
    colors: HashMap<K, Weak<Queue>>,
    /// Entries at which the shard is looked through next.
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
        let shard = |_| Mutex::new(Shard { colors: HashMap::new(), sweep_at: SWEEP_LEAST });
        let shards = (0..SHARDS).map(shard).collect();
        Keyed { handle: self.clone(), bound: None, shards, hasher: RandomState::new() }
    }
}

impl<K: Eq + Hash + Clone> Keyed<K> {
    /// The colors that it makes from now on take at most so many events each ([`Color::bounded`]); those that a clone makes do not.
    pub fn bounded(mut self, events: usize) -> Self {
        self.bound = Some(events);
        self
    }

    /// The color of `key`: the same for as long as it is held or has events queued.
    pub fn color_of(&self, key: &K) -> Color {
        let shard = self.hasher.hash_one(key) as usize % SHARDS;
        let mut shard = self.shards[shard].lock().expect("nothing panics under this lock");
        if let Some(queue) = shard.colors.get(key).and_then(Weak::upgrade) {
            return Color { queue, shared: self.handle.shared.clone() };
        }
        let color = self.handle.color();
        let color = self.bound.into_iter().fold(color, Color::bounded);
        shard.colors.insert(key.clone(), Arc::downgrade(&color.queue));
        shard.sweep();
        color
    }

    /// Keys whose colors have not been forgotten; a hint.
    pub fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.lock().expect("nothing panics under this lock").colors.len())
            .sum()
    }

    /// Whether there is none; a hint.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Eq + Hash> Shard<K> {
    /// Forgets colors that have ended, when they may be half of all: a constant cost per key.
    fn sweep(&mut self) {
        if self.colors.len() >= self.sweep_at {
            self.colors.retain(|_, color| color.strong_count() > 0);
            self.sweep_at = (2 * self.colors.len()).max(SWEEP_LEAST);
        }
    }
}
