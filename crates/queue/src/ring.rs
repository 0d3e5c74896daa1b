//! The last records that one thread wrote, for others to read while it writes on.
//!
//! Owns the order in which words are written and read, so that a reader never takes parts of two records for one: what may
//! have been overwritten meanwhile is left out. The owner never waits and never fails; readers are rare. Leaves out what
//! the words mean. Two owners would mix their records up, and do no other harm. Checked in `model/ring.rs`; the argument
//! stands in `ring.md`.

use crate::{
    canary::{Bug, planted},
    sync::{AtomicU64, Ordering, fence},
};

/// Records of `WORDS` words each, the newest of which overwrite the oldest.
pub struct Ring<const WORDS: usize> {
    /// Records pushed since the beginning, written by the owner.
    pushed: AtomicU64,
    slots: Box<[[AtomicU64; WORDS]]>,
}

impl<const WORDS: usize> Ring<WORDS> {
    /// A ring that keeps `len - 1` records, at least one: a place belongs to the record that is being written.
    pub fn new(len: usize) -> Self {
        let slot = |_| std::array::from_fn(|_| AtomicU64::new(0));
        Self { pushed: AtomicU64::new(0), slots: (0..len.max(2)).map(slot).collect() }
    }

    /// How many records were pushed; the number of the next one.
    pub fn pushed(&self) -> u64 {
        self.pushed.load(Ordering::Relaxed)
    }

    /// Adds a record. For one thread alone.
    #[inline]
    pub fn push(&self, record: [u64; WORDS]) {
        let number = self.pushed.load(Ordering::Relaxed);
        if !planted(Bug::OverwriteWithoutFence) {
            // Pairs with the fence in `recent`: who reads a word of this record learns that it was begun.
            fence(Ordering::Release);
        }
        let slot = &self.slots[(number % self.slots.len() as u64) as usize];
        for (word, value) in slot.iter().zip(record) {
            word.store(value, Ordering::Relaxed);
        }
        // Pairs with the first load in `recent`: the record's words are there.
        self.pushed.store(number + 1, Ordering::Release);
    }

    /// The records that are there, oldest first, and the number of the first of them.
    pub fn recent(&self) -> (u64, Vec<[u64; WORDS]>) {
        let len = self.slots.len() as u64;
        let end = self.pushed.load(Ordering::Acquire);
        let first = end.saturating_sub(len);
        let read = |number: u64| {
            let slot = &self.slots[(number % len) as usize];
            std::array::from_fn(|word| slot[word].load(Ordering::Relaxed))
        };
        let mut records: Vec<[u64; WORDS]> = (first..end).map(read).collect();
        fence(Ordering::Acquire);
        let begun = self.pushed.load(Ordering::Relaxed);
        // The record that is being written stands where number `begun - len` stood.
        let whole = (begun + 1).saturating_sub(len).clamp(first, end);
        records.drain(..(whole - first) as usize);
        (whole, records)
    }
}
