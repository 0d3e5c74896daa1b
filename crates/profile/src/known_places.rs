//! The places of addresses that samples had lately.
//!
//! A recording meets the same addresses again and again. Leaves out the search for a place
//! (`session`). Tested below.

use crate::format::Frame;

/// Addresses whose places are known, 160 KiB.
const KNOWN_SLOTS: usize = 4_096;

/// The places of addresses that were seen lately, so that a frame costs no search in maps and no
/// comparison of paths. A slot holds the latest of its addresses.
pub(crate) struct KnownPlaces {
    slots: Box<[KnownPlace]>,
    /// Slots of an earlier generation are empty.
    generation: u32,
}

#[derive(Clone, Copy)]
struct KnownPlace {
    generation: u32,
    /// `None` in the kernel.
    pid: Option<i32>,
    address: u64,
    place: Frame,
}

impl Default for KnownPlaces {
    fn default() -> Self {
        let none = KnownPlace { generation: 0, pid: None, address: 0, place: Frame { module: 0, offset: 0 } };
        Self { slots: vec![none; KNOWN_SLOTS].into(), generation: 1 }
    }
}

impl KnownPlaces {
    fn slot(pid: Option<i32>, address: u64) -> usize {
        // Multiplication by the golden ratio mixes the lower bits into the upper, which are taken.
        let key = address ^ (u64::from(pid.unwrap_or(0) as u32) << 48);
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - KNOWN_SLOTS.ilog2())) as usize
    }

    pub(crate) fn get(&self, pid: Option<i32>, address: u64) -> Option<Frame> {
        let slot = &self.slots[Self::slot(pid, address)];
        let is_here = slot.generation == self.generation && (slot.pid, slot.address) == (pid, address);
        is_here.then_some(slot.place)
    }

    pub(crate) fn put(&mut self, pid: Option<i32>, address: u64, place: Frame) {
        let generation = self.generation;
        self.slots[Self::slot(pid, address)] = KnownPlace { generation, pid, address, place };
    }

    /// Forgets all places, because maps change.
    pub(crate) fn forget(&mut self) {
        self.generation += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_is_known_for_its_process_until_maps_change() {
        let mut known = KnownPlaces::default();
        let places = [0, 1, 2].map(|offset| Frame { module: 7, offset });
        known.put(Some(5), 0x1000, places[0]);
        known.put(Some(6), 0x1000, places[1]);
        known.put(None, 0x1000, places[2]);
        let found = [Some(5), Some(6), None, Some(8)].map(|pid| known.get(pid, 0x1000));
        assert_eq!(found, [Some(places[0]), Some(places[1]), Some(places[2]), None]);
        assert_eq!(known.get(None, 0), None, "an empty slot is no place");
        known.forget();
        assert_eq!(known.get(Some(5), 0x1000), None);
    }
}
