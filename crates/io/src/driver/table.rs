//! Keys and the tables behind the keys.
//!
//! A key is a slot and a generation, so a stale key finds nothing instead of another connection.
//! Generations are counted per table; a stale key could match again only after exactly 2^32
//! insertions. Also packs a key and an operation into the 64 bits that the kernel returns. Tested
//! here and, through the drivers, in `tests/suite`.

use slab::Slab;

/// A listener of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListenerKey(pub(crate) Id);

/// A stream (connected socket) of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamKey(pub(crate) Id);

/// Any other descriptor of a driver whose readiness is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SourceKey(pub(crate) Id);

/// Slot and generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Id {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Slots per table: the number that fits beside the operation and the generation in 64 bits. Far
/// above any descriptor limit.
const SLOTS_MAX: usize = 1 << 24;

impl Id {
    /// The id and an operation in the 64 bits of a completion or event.
    pub(crate) fn pack(self, operation: u8) -> u64 {
        u64::from(operation) << 56 | u64::from(self.index) << 32 | u64::from(self.generation)
    }

    /// The reverse of [`Id::pack`].
    pub(crate) fn unpack(word: u64) -> (u8, Self) {
        (
            (word >> 56) as u8,
            Self { index: (word >> 32) as u32 & (SLOTS_MAX as u32 - 1), generation: word as u32 },
        )
    }
}

/// A generational table.
pub(crate) struct GenerationalTable<T> {
    slots: Slab<(u32, T)>,
    next_generation: u32,
}

impl<T> GenerationalTable<T> {
    pub(crate) fn new() -> Self {
        Self { slots: Slab::new(), next_generation: 0 }
    }

    pub(crate) fn insert(&mut self, value: T) -> Id {
        let generation = self.next_generation;
        self.next_generation = generation.wrapping_add(1);
        let index = self.slots.insert((generation, value));
        assert!(index < SLOTS_MAX, "more than 2^24 descriptors in one driver");
        Id { index: index as u32, generation }
    }

    #[inline]
    pub(crate) fn get(&self, id: Id) -> Option<&T> {
        match self.slots.get(id.index as usize) {
            Some((generation, value)) if *generation == id.generation => Some(value),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        match self.slots.get_mut(id.index as usize) {
            Some((generation, value)) if *generation == id.generation => Some(value),
            _ => None,
        }
    }

    pub(crate) fn remove(&mut self, id: Id) -> Option<T> {
        self.get(id)?;
        Some(self.slots.remove(id.index as usize).1)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// All entries, in the order of the slots.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Id, &mut T)> {
        self.slots
            .iter_mut()
            .map(|(index, (generation, value))| (Id { index: index as u32, generation: *generation }, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_id_never_finds_the_next_tenant() {
        let mut table = GenerationalTable::new();
        let first = table.insert("first");
        assert_eq!(table.remove(first), Some("first"));
        let second = table.insert("second");
        assert_eq!(first.index, second.index);
        assert_eq!(table.get(first), None);
        assert_eq!(table.remove(first), None);
        assert_eq!(table.get(second), Some(&"second"));
    }

    #[test]
    fn packing_keeps_every_field() {
        let id = Id { index: SLOTS_MAX as u32 - 1, generation: u32::MAX };
        assert_eq!(Id::unpack(id.pack(0xAB)), (0xAB, id));
        let id = Id { index: 0, generation: 7 };
        assert_eq!(Id::unpack(id.pack(0)), (0, id));
    }
}
