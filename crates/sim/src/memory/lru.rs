//! A cache: the chunks of the cache in the order of the last use.
//!
//! A doubly linked list in an array; every step is O(1). Leaves out coherence (`memory.rs`). Tested
//! below against a plain list.

/// No slot.
const NONE: u32 = u32::MAX;

/// A position in the list. Invalid after the removal of the chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LruSlot(u32);

#[derive(Clone, Copy, Debug)]
struct LruLink {
    chunk: u32,
    bytes: u32,
    newer: u32,
    older: u32,
}

/// A cache's contents.
#[derive(Clone, Debug)]
pub(crate) struct Lru {
    capacity_bytes: u64,
    used_bytes: u64,
    links: Vec<LruLink>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
}

impl Lru {
    /// An empty cache of this size.
    pub(crate) fn new(capacity_bytes: u64) -> Self {
        Self {
            capacity_bytes,
            used_bytes: 0,
            links: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    /// Whether the cache holds more than its capacity, so that [`Lru::evict`] is due.
    pub(crate) fn is_over(&self) -> bool {
        self.used_bytes > self.capacity_bytes
    }

    /// Inserts a chunk as the newest.
    pub(crate) fn insert(&mut self, chunk: u32, bytes: u32) -> LruSlot {
        let link = LruLink { chunk, bytes, newer: NONE, older: self.newest };
        let at = match self.free.pop() {
            Some(at) => {
                self.links[at as usize] = link;
                at
            }
            None => {
                self.links.push(link);
                self.links.len() as u32 - 1
            }
        };
        self.used_bytes += u64::from(bytes);
        self.join(at);
        LruSlot(at)
    }

    /// Marks a used chunk as the newest.
    pub(crate) fn touch(&mut self, slot: LruSlot) {
        if self.newest != slot.0 {
            self.part(slot.0);
            self.join(slot.0);
        }
    }

    /// Removes a chunk.
    pub(crate) fn remove(&mut self, slot: LruSlot) {
        self.part(slot.0);
        self.used_bytes -= u64::from(self.links[slot.0 as usize].bytes);
        self.free.push(slot.0);
    }

    /// Removes the oldest chunk.
    pub(crate) fn evict(&mut self) -> Option<u32> {
        let oldest = self.oldest;
        (oldest != NONE).then(|| {
            self.remove(LruSlot(oldest));
            self.links[oldest as usize].chunk
        })
    }

    fn join(&mut self, at: u32) {
        self.links[at as usize].newer = NONE;
        self.links[at as usize].older = self.newest;
        match self.newest {
            NONE => self.oldest = at,
            newest => self.links[newest as usize].newer = at,
        }
        self.newest = at;
    }

    fn part(&mut self, at: u32) {
        let LruLink { newer, older, .. } = self.links[at as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.links[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_as_a_list_ordered_by_last_use(ops in prop::collection::vec((0u8..4, 0u32..12), 0..200)) {
            let mut lru = Lru::new(5);
            let mut model: Vec<(u32, LruSlot)> = Vec::new();
            for (op, chunk) in ops {
                let at = model.iter().position(|entry| entry.0 == chunk);
                match (op, at) {
                    (0 | 1, None) => model.push((chunk, lru.insert(chunk, 1))),
                    (0 | 1, Some(at)) => {
                        lru.touch(model[at].1);
                        let entry = model.remove(at);
                        model.push(entry);
                    }
                    (2, Some(at)) => lru.remove(model.remove(at).1),
                    _ => {
                        let oldest = (!model.is_empty()).then(|| model.remove(0).0);
                        prop_assert_eq!(lru.evict(), oldest);
                    }
                }
                prop_assert_eq!(lru.is_over(), model.len() > 5);
            }
        }
    }
}
