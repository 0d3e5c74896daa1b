//! The times of a core's batches: what the next batch needs to know about the last.
//!
//! Leaves out the readings of the clock (`clock.rs`) and learning (`vermeil_sched::Learner`).

use std::cell::Cell;
use vermeil_queue::ColorId;
use vermeil_sched::{HeldBack, RunAfter};

/// The times of a core's batches.
pub(super) struct BatchTimes {
    /// Duration of the last batch, if each batch is measured.
    pub(super) took_ns: Cell<u64>,
    /// Time since the last color was taken up, to charge to that color's class.
    pub(super) spent_ns: Cell<u64>,
    /// The delay since a color was taken from the queue.
    held_back: Cell<HeldBack>,
    /// The color that ran last.
    ran_last: Cell<Option<ColorId>>,
    /// Whether the next event follows an event of the same color.
    pub(super) after: Cell<RunAfter>,
    /// Whether the events of the last batch were timed.
    pub(super) timed: Cell<bool>,
    /// Whether the events of the next batch must be timed.
    pub(super) times_next: Cell<bool>,
}

impl Default for BatchTimes {
    fn default() -> Self {
        Self {
            took_ns: Cell::default(),
            spent_ns: Cell::default(),
            held_back: Cell::default(),
            ran_last: Cell::default(),
            after: Cell::new(RunAfter::Others),
            timed: Cell::default(),
            times_next: Cell::default(),
        }
    }
}

impl BatchTimes {
    /// The core takes up `color`.
    #[inline]
    pub(super) fn take_up(&self, color: ColorId) {
        let is_same = self.ran_last.replace(Some(color)) == Some(color);
        self.after.set(if is_same { RunAfter::Own } else { RunAfter::Others });
    }

    /// A batch has run: charges its duration to the color's class.
    #[inline]
    pub(super) fn charge(&self) {
        self.after.set(RunAfter::Own);
        self.spent_ns.set(self.spent_ns.get() + self.took_ns.get());
    }

    /// The colors in the queue waited for `ns` more, which was measured or is an expectation.
    #[inline]
    pub(super) fn hold_back(&self, ns: u64, was_measured: bool) {
        let mut held_back = self.held_back.get();
        held_back.add(ns, was_measured);
        self.held_back.set(held_back);
    }

    /// The time that the colors in the queue have waited, if a part of that time was measured.
    #[inline]
    pub(super) fn take_held_back(&self) -> Option<u64> {
        self.held_back.take().end()
    }
}
