//! A chunk of memory and the caches that hold the chunk.
//!
//! Owns the list of holders. A chunk is nearly always in one to three caches, so the chunk itself
//! has room for a few holders. A chunk that every core reads has more holders in a sorted vector. A
//! chunk has the size of a cache line of the simulating machine, because each touch looks up a
//! chunk, nearly always in far memory. Leaves out the protocol of caches (`memory.rs`). Tested
//! below.

use super::lru::LruSlot;

/// No cache.
pub(crate) const NOWHERE: u16 = u16::MAX;
/// Number of holders without the vector.
const NEAR: usize = 4;

/// A cache that holds a chunk, and the slot there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHolder {
    pub(crate) cache: u16,
    pub(crate) slot: LruSlot,
}

/// A chunk.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Chunk {
    pub(crate) bytes: u32,
    /// The node of the chunk's memory.
    pub(crate) home: u16,
    /// The domain (outermost cache) with a newer copy than memory, or [`NOWHERE`].
    pub(crate) dirty: u16,
    /// The core of the last write; valid only for a dirty chunk.
    pub(crate) writer: u32,
    near_len: u8,
    near_caches: [u16; NEAR],
    near_slots: [LruSlot; NEAR],
    far: Vec<ChunkHolder>,
}

impl Chunk {
    /// A chunk in no cache.
    pub(crate) fn new(bytes: u32, home: u16) -> Self {
        Self {
            bytes,
            home,
            dirty: NOWHERE,
            writer: 0,
            near_len: 0,
            near_caches: [NOWHERE; NEAR],
            near_slots: [LruSlot::default(); NEAR],
            far: Vec::new(),
        }
    }

    /// The caches that hold the chunk.
    pub(crate) fn holders(&self) -> impl Iterator<Item = ChunkHolder> + '_ {
        let near = self.near_caches.iter().zip(&self.near_slots).take(usize::from(self.near_len));
        near.map(|(&cache, &slot)| ChunkHolder { cache, slot }).chain(self.far.iter().copied())
    }

    /// The slot of the chunk in this cache.
    pub(crate) fn slot_in(&self, cache: u16) -> Option<LruSlot> {
        if let Some(at) = self.near_at(cache) {
            return Some(self.near_slots[at]);
        }
        if self.far.is_empty() {
            return None;
        }
        self.far.binary_search_by_key(&cache, |holder| holder.cache).ok().map(|at| self.far[at].slot)
    }

    fn near_at(&self, cache: u16) -> Option<usize> {
        // Compares all entries, because their number is a constant at compile time. Entries behind
        // the last are old.
        let at = self.near_caches.iter().position(|&near| near == cache);
        at.filter(|&at| at < usize::from(self.near_len))
    }

    /// Adds a cache that holds the chunk.
    pub(crate) fn add(&mut self, holder: ChunkHolder) {
        if usize::from(self.near_len) < NEAR {
            self.near_caches[usize::from(self.near_len)] = holder.cache;
            self.near_slots[usize::from(self.near_len)] = holder.slot;
            self.near_len += 1;
        } else {
            let at = self.far.partition_point(|other| other.cache < holder.cache);
            self.far.insert(at, holder);
        }
    }

    /// Removes a cache from the holders.
    pub(crate) fn drop_from(&mut self, cache: u16) {
        if let Some(at) = self.near_at(cache) {
            self.drop_near(at);
        } else if let Ok(at) = self.far.binary_search_by_key(&cache, |holder| holder.cache) {
            self.far.remove(at);
        }
    }

    /// Whether no cache outside this list holds the chunk.
    pub(crate) fn is_only_in(&self, caches: &[u16]) -> bool {
        let near = &self.near_caches[..usize::from(self.near_len)];
        self.far.is_empty() && near.iter().all(|near| caches.contains(near))
    }

    /// Removes all holders outside this list, and returns the removed holders in `dropped`.
    pub(crate) fn keep_only(&mut self, kept: &[u16], dropped: &mut Vec<ChunkHolder>) {
        dropped.clear();
        for at in (0..usize::from(self.near_len)).rev() {
            let holder = ChunkHolder { cache: self.near_caches[at], slot: self.near_slots[at] };
            if !kept.contains(&holder.cache) {
                dropped.push(holder);
                self.drop_near(at);
            }
        }
        if !self.far.is_empty() {
            dropped.extend(self.far.extract_if(.., |holder| !kept.contains(&holder.cache)));
        }
    }

    fn drop_near(&mut self, at: usize) {
        self.near_len -= 1;
        let last = usize::from(self.near_len);
        (self.near_caches[at], self.near_slots[at]) = (self.near_caches[last], self.near_slots[last]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::lru::Lru;

    #[test]
    fn a_chunk_is_a_cache_line() {
        assert_eq!(size_of::<Chunk>(), 64);
    }

    #[test]
    fn holders_come_and_go() {
        let mut lru = Lru::new(1_000);
        let mut chunk = Chunk::new(64, 0);
        for cache in [9, 3, 7, 1, 8, 2, 6] {
            chunk.add(ChunkHolder { cache, slot: lru.insert(u32::from(cache), 1) });
        }
        assert!([9, 3, 7, 1, 8, 2, 6].iter().all(|&cache| chunk.slot_in(cache).is_some()));
        assert_eq!(chunk.slot_in(5), None);
        chunk.drop_from(3);
        chunk.drop_from(8);
        let mut dropped = Vec::new();
        chunk.keep_only(&[7, 2], &mut dropped);
        let mut gone: Vec<u16> = dropped.iter().map(|holder| holder.cache).collect();
        gone.sort_unstable();
        assert_eq!(gone, [1, 6, 9]);
        assert_eq!(chunk.holders().count(), 2);
    }
}
