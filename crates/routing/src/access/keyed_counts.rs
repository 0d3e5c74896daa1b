//! Counts of things that go on at the same time, by key: connections of a client, requests in
//! progress.
//!
//! The counts are in shards, each behind a lock, chosen by the hash of the key. A count of zero is
//! removed, so the table has at most as many entries as things go on. Two keys with the same hash
//! of 64 bits would share a count. The hash has a random seed, so no client can choose such keys.
//! Tested below, and through the binary (`crates/e2e/tests/e2e/access.rs`, `places.rs`).

use crossbeam_utils::CachePadded;
use foldhash::fast::RandomState;
use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{BuildHasher as _, Hash},
    sync::{Arc, Mutex},
};

/// Locks of the table: more than the cores that count at the same instant, because counting takes
/// less than a microsecond.
const SHARDS: usize = 64;

type CountsShard = HashMap<u64, usize, RandomState>;

/// The counts of all keys.
pub struct KeyedCounts {
    shards: Box<[CachePadded<Mutex<CountsShard>>]>,
    hasher: RandomState,
}

/// A thing that counts for its key until it is dropped.
pub struct KeyedCount {
    counts: Arc<KeyedCounts>,
    hash: u64,
}

impl Default for KeyedCounts {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| CachePadded::default()).collect(), hasher: RandomState::default() }
    }
}

impl KeyedCounts {
    /// Counts one more for `key`. `None` if the count is `most` already.
    pub fn enter(self: &Arc<Self>, key: impl Hash, most: usize) -> Option<KeyedCount> {
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard(hash).lock().expect("nothing panics under this lock");
        let count = shard.entry(hash).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        drop(shard);
        Some(KeyedCount { counts: self.clone(), hash })
    }

    fn shard(&self, hash: u64) -> &Mutex<CountsShard> {
        &self.shards[hash as usize % SHARDS]
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.lock().expect("nothing panics under this lock").is_empty())
    }
}

impl Drop for KeyedCount {
    fn drop(&mut self) {
        let Ok(mut shard) = self.counts.shard(self.hash).lock() else { return };
        if let Entry::Occupied(mut count) = shard.entry(self.hash) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_count_apart_and_leave_nothing() {
        let counts = Arc::new(KeyedCounts::default());
        let first: Vec<_> = (0..2).map(|_| counts.enter("a", 2)).collect();
        assert!(first.iter().all(Option::is_some));
        assert!(counts.enter("a", 2).is_none());
        let other = counts.enter("b", 2);
        assert!(other.is_some());
        drop(first);
        assert!(counts.enter("a", 1).is_some());
        drop(other);
        assert!(counts.is_empty(), "an ended thing leaves no memory behind");
    }
}
