//! Sets of cores, as bits: the cores that sleep, run an event, or have a color to steal. A query of
//! a machine with 128 cores reads two words.
//!
//! Owns the bits; the world changes them. Leaves out the meaning for the scheduler. Tested below,
//! and against the cores by `audit.rs`.

use vermeil_sched::CoreIndex;

/// A set of cores.
#[derive(Clone, Debug)]
pub(crate) struct SimCoreSet {
    words: Vec<u64>,
}

impl SimCoreSet {
    /// An empty set for a machine with this number of cores.
    pub(crate) fn none(cores: usize) -> Self {
        Self { words: vec![0; cores.div_ceil(64)] }
    }

    /// The set of all cores.
    pub(crate) fn all(cores: usize) -> Self {
        let mut set = Self::none(cores);
        (0..cores as u32).for_each(|core| set.insert(CoreIndex(core)));
        set
    }

    /// Adds a core.
    pub(crate) fn insert(&mut self, core: CoreIndex) {
        self.words[core.0 as usize / 64] |= 1 << (core.0 % 64);
    }

    /// Removes a core.
    pub(crate) fn remove(&mut self, core: CoreIndex) {
        self.words[core.0 as usize / 64] &= !(1 << (core.0 % 64));
    }

    /// Whether the set contains the core.
    pub(crate) fn contains(&self, core: CoreIndex) -> bool {
        self.words[core.0 as usize / 64] >> (core.0 % 64) & 1 == 1
    }

    /// Whether the set is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// The bits of the `index`-th 64 cores.
    pub(crate) fn word(&self, index: u32) -> u64 {
        self.words[index as usize]
    }

    /// The cores, by index.
    pub(crate) fn iter(&self) -> Members<'_> {
        Members { words: &self.words, at: 0, rest: self.words.first().copied().unwrap_or(0) }
    }
}

/// The cores of a set, by index.
pub(crate) struct Members<'a> {
    words: &'a [u64],
    at: usize,
    /// The remaining bits of the word at `at`.
    rest: u64,
}

impl Iterator for Members<'_> {
    type Item = CoreIndex;

    fn next(&mut self) -> Option<CoreIndex> {
        while self.rest == 0 {
            self.at += 1;
            self.rest = *self.words.get(self.at)?;
        }
        let bit = self.rest.trailing_zeros();
        self.rest &= self.rest - 1;
        Some(CoreIndex(self.at as u32 * 64 + bit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserted_members_are_found_by_index() {
        let mut set = SimCoreSet::none(200);
        let cores = [CoreIndex(0), CoreIndex(63), CoreIndex(64), CoreIndex(199)];
        cores.iter().rev().for_each(|&core| set.insert(core));
        assert!(set.iter().eq(cores) && set.contains(CoreIndex(63)) && !set.contains(CoreIndex(62)));
        cores.iter().for_each(|&core| set.remove(core));
        assert!(set.is_empty());
        assert_eq!(SimCoreSet::all(130).iter().count(), 130);
    }
}
