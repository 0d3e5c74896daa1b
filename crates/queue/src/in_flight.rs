//! In-flight counters: items that have entered and not left, counted by many threads, mostly by the
//! owner, and whether several counters are all empty.
//!
//! The owner is the only writer of two numbers, and so counts without a locked operation. All other
//! threads share two more numbers. `all_done` never reports zero while items are in flight, because
//! it reads every `left` counter before any `entered` counter.
//!
//! A thread that waits for a lower count sets a mark here. Every thread that counts an item as left
//! reads the mark, except the owner, which polls the mark.
//!
//! A running event no longer counts, and yet may post other events before its end. So `all_done`
//! also checks, between the two reads, that no thread is running an event. Leaves out the meaning
//! of the items. Checked in `model/in_flight.rs`.

use crate::{
    canary::{Bug, planted},
    sync::{AtomicBool, AtomicU64, Ordering, fence},
};

/// Items that have entered and left.
pub struct InFlight {
    /// Written by the owner alone.
    entered_local: AtomicU64,
    /// Written by the owner alone.
    left_local: AtomicU64,
    entered_remote: AtomicU64,
    left_remote: AtomicU64,
    /// A thread waits for a lower count.
    awaited: AtomicBool,
}

impl Default for InFlight {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        let awaited = AtomicBool::new(false);
        Self {
            entered_local: zero(),
            left_local: zero(),
            entered_remote: zero(),
            left_remote: zero(),
            awaited,
        }
    }
}

impl InFlight {
    /// Counts an arrival, by the owner.
    #[inline]
    pub fn enter_local(&self) {
        self.entered_local.store(self.entered_local.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Counts a departure, by the owner.
    #[inline]
    pub fn leave_local(&self) {
        // Release: a reader that sees the departure also sees the arrival and the running mark.
        self.left_local.store(self.left_local.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Counts an arrival, by any other thread.
    #[inline]
    pub fn enter_remote(&self) {
        self.entered_remote.fetch_add(1, Ordering::Relaxed);
    }

    /// Undoes an arrival counted by another thread than the owner. Returns whether a thread waits
    /// for a lower count.
    #[inline]
    pub fn undo_enter(&self) -> bool {
        // As in `leave_remote`.
        self.entered_remote.fetch_sub(1, Ordering::SeqCst);
        self.is_awaited_now()
    }

    /// Counts a departure, by any other thread. Returns whether a thread waits for a lower count.
    #[inline]
    pub fn leave_remote(&self) -> bool {
        // Release as in `leave_local`. Sequentially consistent with the following read and with
        // `set_awaited`.
        self.left_remote.fetch_add(1, Ordering::SeqCst);
        self.is_awaited_now()
    }

    #[inline]
    fn is_awaited_now(&self) -> bool {
        // Both accesses are in the total order of sequentially consistent accesses, which suffices
        // on every machine. Loom does not model that order.
        if cfg!(any(loom, shuttle)) && !planted(Bug::LeaveUnseen) {
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
        let left = self.left();
        difference(self.entered(), left)
    }

    /// Whether no item is in flight.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn entered(&self) -> u64 {
        self.entered_local.load(Ordering::Acquire).wrapping_add(self.entered_remote.load(Ordering::Acquire))
    }

    fn left(&self) -> u64 {
        self.left_local.load(Ordering::Acquire).wrapping_add(self.left_remote.load(Ordering::Acquire))
    }

    /// The number of items in flight in all these counters, where an item may enter in one counter
    /// and go in another: exact if no item comes or goes meanwhile.
    pub fn sum<'a>(counters: impl Iterator<Item = &'a Self> + Clone) -> usize {
        let left = counters.clone().fold(0, |sum: u64, counter| sum.wrapping_add(counter.left()));
        difference(counters.fold(0, |sum: u64, counter| sum.wrapping_add(counter.entered())), left)
    }

    /// Whether no item is in flight in any of these counters, and no running event may post
    /// another, because no flag of `runs` is set.
    pub fn all_done<'a>(
        counters: impl Iterator<Item = &'a Self> + Clone,
        mut runs: impl Iterator<Item = &'a RunFlag>,
    ) -> bool {
        let left = |sum: u64, counter: &Self| sum.wrapping_add(counter.left());
        let entered = |sum: u64, counter: &Self| sum.wrapping_add(counter.entered());
        if planted(Bug::CountEnteredFirst) {
            let entered = counters.clone().fold(0, entered);
            return !runs.any(RunFlag::is_on) && entered == counters.fold(0, left);
        }
        let left = counters.clone().fold(0, left);
        !runs.any(RunFlag::is_on) && counters.fold(0, entered) == left
    }
}

/// The difference; zero if the reads saw more departures than arrivals.
fn difference(entered: u64, left: u64) -> usize {
    usize::try_from(entered.wrapping_sub(left).cast_signed()).unwrap_or(0)
}

/// Whether a thread runs an event that may post others.
#[derive(Default)]
pub struct RunFlag(AtomicBool);

impl RunFlag {
    /// The thread begins to run, before counting any of those events as left.
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
