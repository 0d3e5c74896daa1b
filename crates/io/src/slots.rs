//! A region divided into slots for contents of many sizes, taken and freed in any order by any
//! thread.
//!
//! The region is counted in units of 64 KiB. Contents longer than a quarter of four units take
//! consecutive whole units. Shorter contents share a *slab* of four units with others of the same
//! class. There are four classes per doubling, so at most a fifth of a slot is empty. An unused
//! slab becomes units again. Without room there is no slot, and the caller uses other memory.
//! Tested below.

#![allow(unsafe_code)]

use crate::pages::Region;
use std::{
    collections::HashMap,
    fmt,
    ops::{Deref, DerefMut},
    slice,
    sync::{Arc, Mutex, MutexGuard},
};

/// Bytes of a unit: the default maximum size of a cached file, so each cached file fits into a
/// unit.
const UNIT_BYTES: usize = 64 << 10;

/// Units of a slab: the longest class has four slots.
const SLAB_UNITS: usize = 4;
const SLAB_BYTES: usize = SLAB_UNITS * UNIT_BYTES;

/// Bytes of the shortest class.
const CLASS_BYTES_MIN: usize = 256;

/// A region divided into slots.
#[derive(Debug)]
pub struct Slots {
    region: Region,
    state: Mutex<RegionState>,
}

#[derive(Debug)]
struct RegionState {
    taken: Vec<bool>,
    /// Position at which the search for free units continues.
    hand: usize,
    /// By the slab's first unit.
    slabs: HashMap<usize, Slab>,
    /// By slot size: slabs with room.
    open: HashMap<usize, Vec<usize>>,
    bytes: usize,
}

#[derive(Debug)]
struct Slab {
    slot_bytes: usize,
    free: Vec<u16>,
}

impl Slab {
    fn slots(&self) -> usize {
        SLAB_BYTES / self.slot_bytes
    }
}

/// The position of a slot.
#[derive(Clone, Copy, Debug)]
enum SlotPlace {
    Units { first: usize, count: usize },
    InSlab { slab: usize, slot: u16, slot_bytes: usize },
}

impl SlotPlace {
    fn offset(self) -> usize {
        match self {
            Self::Units { first, .. } => first * UNIT_BYTES,
            Self::InSlab { slab, slot, slot_bytes } => slab * UNIT_BYTES + usize::from(slot) * slot_bytes,
        }
    }

    fn bytes(self) -> usize {
        match self {
            Self::Units { count, .. } => count * UNIT_BYTES,
            Self::InSlab { slot_bytes, .. } => slot_bytes,
        }
    }
}

/// Bytes of the class for `bytes`: one, one and a quarter, one and a half, one and three quarters
/// of a power of two.
fn class_of(bytes: usize) -> usize {
    if bytes <= CLASS_BYTES_MIN {
        return CLASS_BYTES_MIN;
    }
    let step = bytes.next_power_of_two() / 8;
    bytes.div_ceil(step) * step
}

impl Slots {
    /// Divides `region`.
    pub fn new(region: Region) -> Arc<Self> {
        let units = region.bytes() / UNIT_BYTES;
        let state = RegionState {
            taken: vec![false; units],
            hand: 0,
            slabs: HashMap::new(),
            open: HashMap::new(),
            bytes: 0,
        };
        Arc::new(Self { region, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, RegionState> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Bytes of the taken slots.
    pub fn used(&self) -> usize {
        self.lock().bytes
    }

    /// A slot of `bytes`; `None` if no slot is free. The initial contents are unspecified.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Option<RegionSlot> {
        let mut state = self.lock();
        let place = if bytes > UNIT_BYTES {
            let count = bytes.div_ceil(UNIT_BYTES);
            SlotPlace::Units { first: state.take_units(count)?, count }
        } else {
            state.take_in_slab(class_of(bytes))?
        };
        state.bytes += place.bytes();
        drop(state);
        Some(RegionSlot { slots: self.clone(), place, bytes })
    }
}

impl RegionState {
    /// `count` consecutive free units, searched from the position of the last success.
    fn take_units(&mut self, count: usize) -> Option<usize> {
        let units = self.taken.len();
        if count > units {
            return None;
        }
        let (mut first, mut have) = (self.hand, 0);
        // Once around, and further for a run that begins before the position.
        for step in 0..units + count {
            let at = (self.hand + step) % units;
            if at == 0 || self.taken[at] {
                have = 0;
            }
            if self.taken[at] {
                continue;
            }
            if have == 0 {
                first = at;
            }
            have += 1;
            if have == count {
                self.taken[first..first + count].fill(true);
                self.hand = (first + count) % units;
                return Some(first);
            }
        }
        None
    }

    fn take_in_slab(&mut self, slot_bytes: usize) -> Option<SlotPlace> {
        let slab = match self.open.get(&slot_bytes).and_then(|open| open.last()) {
            Some(slab) => *slab,
            None => {
                let slab = self.take_units(SLAB_UNITS)?;
                let slots = u16::try_from(SLAB_BYTES / slot_bytes).expect("1,024 of the shortest");
                self.slabs.insert(slab, Slab { slot_bytes, free: (0..slots).rev().collect() });
                self.open.entry(slot_bytes).or_default().push(slab);
                slab
            }
        };
        let of_slab = self.slabs.get_mut(&slab).expect("an open slab is one");
        let slot = of_slab.free.pop().expect("an open slab has room");
        if of_slab.free.is_empty() {
            self.open.get_mut(&slot_bytes).expect("it was open").retain(|open| *open != slab);
        }
        Some(SlotPlace::InSlab { slab, slot, slot_bytes })
    }

    fn give_back(&mut self, place: SlotPlace) {
        self.bytes -= place.bytes();
        let (slab, slot, slot_bytes) = match place {
            SlotPlace::Units { first, count } => return self.taken[first..first + count].fill(false),
            SlotPlace::InSlab { slab, slot, slot_bytes } => (slab, slot, slot_bytes),
        };
        let of_slab = self.slabs.get_mut(&slab).expect("a slot's slab stays");
        of_slab.free.push(slot);
        let open = self.open.entry(slot_bytes).or_default();
        if of_slab.free.len() == 1 {
            open.push(slab);
        }
        if of_slab.free.len() == of_slab.slots() {
            open.retain(|open| *open != slab);
            self.slabs.remove(&slab);
            self.taken[slab..slab + SLAB_UNITS].fill(false);
        }
    }
}

/// An owned part of a region; freed when dropped.
pub struct RegionSlot {
    slots: Arc<Slots>,
    place: SlotPlace,
    bytes: usize,
}

impl fmt::Debug for RegionSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot {{ place: {:?}, bytes: {} }}", self.place, self.bytes)
    }
}

impl Deref for RegionSlot {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the slot lies within the region, which lives as long as the `slots` held here.
        // All of it is initialised, to zeroes by the kernel; and until the drop no other slot has
        // this memory.
        unsafe {
            slice::from_raw_parts(self.slots.region.start().add(self.place.offset()).as_ptr(), self.bytes)
        }
    }
}

impl DerefMut for RegionSlot {
    fn deref_mut(&mut self) -> &mut [u8] {
        let start = self.slots.region.start();
        // SAFETY: as above; and the borrow is exclusive.
        unsafe { slice::from_raw_parts_mut(start.add(self.place.offset()).as_ptr(), self.bytes) }
    }
}

impl AsRef<[u8]> for RegionSlot {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for RegionSlot {
    fn drop(&mut self) {
        self.slots.lock().give_back(self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::Pages;
    use proptest::prelude::*;

    fn slots(bytes: usize) -> Arc<Slots> {
        Slots::new(Region::map(bytes, Pages::Transparent).expect("some megabytes").0)
    }

    #[test]
    fn classes_waste_a_fifth_at_most() {
        for bytes in 1..=UNIT_BYTES {
            let class = class_of(bytes);
            assert!(class >= bytes && class_of(class) == class, "{bytes}: {class}");
            assert!(bytes <= CLASS_BYTES_MIN || (class - bytes) * 5 <= class, "{bytes}: {class}");
        }
    }

    #[test]
    fn returned_slot_serves_any_class() {
        let slots = slots(2 << 20);
        let all: Vec<_> = std::iter::from_fn(|| slots.take(1000)).collect();
        assert!(all.len() > 1500 && slots.take(1).is_none());
        drop(all);
        assert_eq!(slots.used(), 0);
        let whole = slots.take(2 << 20).expect("all of it");
        assert!(slots.take(1).is_none() && slots.take(3 << 20).is_none());
        drop(whole);
        assert!(slots.take(2 << 20).is_some());
    }

    proptest! {
        #![proptest_config(proptest::test_runner::Config { cases: 64, failure_persistence: None, ..Default::default() })]

        #[test]
        fn no_two_slots_share_a_byte(
            steps in prop::collection::vec((any::<bool>(), 1usize..200_000, any::<prop::sample::Index>()), 0..300),
        ) {
            let slots = slots(4 << 20);
            let mut held: Vec<(RegionSlot, u8)> = Vec::new();
            for (number, (takes, bytes, index)) in steps.into_iter().enumerate() {
                if takes {
                    // Short contents more often.
                    let bytes = if number % 3 == 0 { bytes } else { bytes % 5000 + 1 };
                    if let Some(mut slot) = slots.take(bytes) {
                        prop_assert_eq!(slot.len(), bytes);
                        let mark = number as u8;
                        slot.fill(mark);
                        held.push((slot, mark));
                    }
                } else if !held.is_empty() {
                    let (slot, mark) = held.swap_remove(index.index(held.len()));
                    prop_assert!(slot.iter().all(|byte| *byte == mark));
                }
            }
            prop_assert!(held.iter().all(|(slot, mark)| slot.iter().all(|byte| byte == mark)));
            held.clear();
            prop_assert_eq!(slots.used(), 0);
            prop_assert!(slots.take(4 << 20).is_some(), "nothing is lost");
        }
    }
}
