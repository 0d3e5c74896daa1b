//! In-flight counters: items that have come and not gone, counted by many threads, mostly by the
//! owner, and whether several counters are all empty.
//!
//! The owner is the only writer of two numbers, and so counts without a locked operation. All other
//! threads share two more numbers. `all_done` never reports zero while items are in flight, because
//! it reads every `gone` counter before any `come` counter.
//!
//! A thread that waits for a lower count sets a mark here. Every thread that counts an item as gone
//! reads the mark, except the owner, which polls the mark.
//!
//! A running event no longer counts, and yet may post other events before its end. So `all_done`
//! also checks, between the two reads, that no thread is running an event. Leaves out the meaning
//! of the items. Checked in `model/tally.rs`.

use crate::{
    canary::{Bug, planted},
    sync::{AtomicBool, AtomicU64, Ordering, fence},
};

/// Items that have come and gone.
pub struct Tally {
    /// Written by the owner alone.
    come: AtomicU64,
    /// Written by the owner alone.
    gone: AtomicU64,
    come_elsewhere: AtomicU64,
    gone_elsewhere: AtomicU64,
    /// A thread waits for a lower count.
    awaited: AtomicBool,
}

impl Default for Tally {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        let awaited = AtomicBool::new(false);
        Self { come: zero(), gone: zero(), come_elsewhere: zero(), gone_elsewhere: zero(), awaited }
    }
}

impl Tally {
    /// Counts an arrival, by the owner.
    #[inline]
    pub fn come_here(&self) {
        self.come.store(self.come.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Counts a departure, by the owner.
    #[inline]
    pub fn gone_here(&self) {
        // Release: a reader that sees the departure also sees the arrival and the running mark.
        self.gone.store(self.gone.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Counts an arrival, by any other thread.
    #[inline]
    pub fn come_elsewhere(&self) {
        self.come_elsewhere.fetch_add(1, Ordering::Relaxed);
    }

    /// Undoes an arrival counted by another thread than the owner. Returns whether a thread waits
    /// for a lower count.
    #[inline]
    pub fn take_back(&self) -> bool {
        // As in `gone_elsewhere`.
        self.come_elsewhere.fetch_sub(1, Ordering::SeqCst);
        self.is_awaited_now()
    }

    /// Counts a departure, by any other thread. Returns whether a thread waits for a lower count.
    #[inline]
    pub fn gone_elsewhere(&self) -> bool {
        // Release as in `gone_here`. Sequentially consistent with the following read and with
        // `set_awaited`.
        self.gone_elsewhere.fetch_add(1, Ordering::SeqCst);
        self.is_awaited_now()
    }

    #[inline]
    fn is_awaited_now(&self) -> bool {
        // Both accesses are in the total order of sequentially consistent accesses, which suffices
        // on every machine. Loom does not model that order.
        if cfg!(any(loom, shuttle)) && !planted(Bug::GoesUnseen) {
            fence(Ordering::SeqCst);
        }
        self.awaited.load(Ordering::SeqCst)
    }

    /// Sets whether a thread waits for a lower count; called before the waiter reads the count.
    pub fn set_awaited(&self, awaited: bool) {
        self.awaited.store(awaited, Ordering::SeqCst);
        // Pairs with the accesses above, and with the fence of an owner that announces its sleep.
        fence(Ordering::SeqCst);
    }

    /// Whether a thread waits. For the owner, which no thread notifies: a hint, and exact if a
    /// fence stands between the owner's last departure and this read.
    #[inline]
    pub fn is_awaited(&self) -> bool {
        self.awaited.load(Ordering::Relaxed)
    }

    /// The number of items in flight: exact if no item comes or goes meanwhile, and never too low.
    #[inline]
    pub fn len(&self) -> usize {
        let gone = self.gone();
        left(self.come(), gone)
    }

    /// Whether no item is in flight.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn come(&self) -> u64 {
        self.come.load(Ordering::Acquire).wrapping_add(self.come_elsewhere.load(Ordering::Acquire))
    }

    fn gone(&self) -> u64 {
        self.gone.load(Ordering::Acquire).wrapping_add(self.gone_elsewhere.load(Ordering::Acquire))
    }

    /// The number of items in flight in all these counters, where an item may come in one counter
    /// and go in another: exact if no item comes or goes meanwhile.
    pub fn sum<'a>(tallies: impl Iterator<Item = &'a Self> + Clone) -> usize {
        let gone = tallies.clone().fold(0, |sum: u64, tally| sum.wrapping_add(tally.gone()));
        left(tallies.fold(0, |sum: u64, tally| sum.wrapping_add(tally.come())), gone)
    }

    /// Whether no item is in flight in any of these counters, and no running event may post
    /// another, because no flag of `runs` is set.
    pub fn all_done<'a>(
        tallies: impl Iterator<Item = &'a Self> + Clone,
        mut runs: impl Iterator<Item = &'a Runs>,
    ) -> bool {
        let gone = |sum: u64, tally: &Self| sum.wrapping_add(tally.gone());
        let come = |sum: u64, tally: &Self| sum.wrapping_add(tally.come());
        if planted(Bug::CountComeFirst) {
            let come = tallies.clone().fold(0, come);
            return !runs.any(Runs::is_on) && come == tallies.fold(0, gone);
        }
        let gone = tallies.clone().fold(0, gone);
        !runs.any(Runs::is_on) && tallies.fold(0, come) == gone
    }
}

/// The difference; zero if the reads saw more departures than arrivals.
fn left(come: u64, gone: u64) -> usize {
    usize::try_from(come.wrapping_sub(gone).cast_signed()).unwrap_or(0)
}

/// Whether a thread runs an event that may post others.
#[derive(Default)]
pub struct Runs(AtomicBool);

impl Runs {
    /// The thread begins to run, before counting any of those events as gone.
    #[inline]
    pub fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// The thread has finished the run.
    #[inline]
    pub fn end(&self) {
        // Release: a reader that sees the end sees all posts of the run.
        self.0.store(false, Ordering::Release);
    }

    fn is_on(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
