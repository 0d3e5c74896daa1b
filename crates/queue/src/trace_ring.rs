//! A ring of the last records that one thread wrote, readable by other threads during writes.
//!
//! Defines the order of word writes and reads, so that a reader never mixes two records: the reader
//! omits records that may have been overwritten meanwhile. The owner never waits and never fails;
//! reads are rare. Leaves out the meaning of the words. Two owners would mix their records, and do
//! no other harm. Checked in `model/trace_ring.rs`; the argument is in `trace_ring.md`.

use crate::{
    canary::{Bug, planted},
    sync::{AtomicU64, Ordering, fence},
};

/// Records of `WORDS` words each. The newest record overwrites the oldest.
pub struct TraceRing<const WORDS: usize> {
    /// Records pushed since the beginning, written by the owner.
    pushed: AtomicU64,
    slots: Box<[[AtomicU64; WORDS]]>,
}

impl<const WORDS: usize> TraceRing<WORDS> {
    /// A ring that keeps `len - 1` records, at least one, because one slot belongs to the record
    /// that is being written.
    pub fn new(len: usize) -> Self {
        let slot = |_| std::array::from_fn(|_| AtomicU64::new(0));
        Self { pushed: AtomicU64::new(0), slots: (0..len.max(2)).map(slot).collect() }
    }

    /// The number of records pushed so far, which is the number of the next record.
    pub fn pushed(&self) -> u64 {
        self.pushed.load(Ordering::Relaxed)
    }

    /// Adds a record. Only one thread may call this.
    #[inline]
    pub fn push(&self, record: [u64; WORDS]) {
        let number = self.pushed.load(Ordering::Relaxed);
        if !planted(Bug::OverwriteWithoutFence) {
            // Pairs with the fence in `recent`: a reader of a word of this record learns that the
            // record was begun.
            fence(Ordering::Release);
        }
        let slot = &self.slots[(number % self.slots.len() as u64) as usize];
        for (word, value) in slot.iter().zip(record) {
            word.store(value, Ordering::Relaxed);
        }
        // Pairs with the first load in `recent`: the words of the record are there.
        self.pushed.store(number + 1, Ordering::Release);
    }

    /// The available records, oldest first, and the number of the first.
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
