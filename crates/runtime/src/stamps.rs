//! Notes about events: times of posting as short stamps, and the posting core.
//!
//! Leaves out the notes of runs and the recording (`observed.rs`), where the stamps are tested.

use crate::counters::NOBODY;
use std::cell::{Cell, RefCell};
use vermeil_io::{Clock, CountedEvent};
use vermeil_queue::{Label, TraceRing};
use vermeil_sched::{CoreIndex, Observe, Stamps};

/// The observation settings of a runtime.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Noting {
    pub(crate) observe: Observe,
    /// Events that each core's ring keeps; 0 for no ring.
    pub(crate) record: usize,
    /// The quantity that cores count if handlers are placed by observation. Only tests use anything
    /// but cache misses.
    pub(crate) counted: CountedEvent,
}

impl Noting {
    pub(crate) fn ring(self) -> Option<TraceRing<WORDS>> {
        (self.record > 0).then(|| TraceRing::new(self.record + 1))
    }

    /// Whether runs are timed.
    #[inline]
    pub(crate) fn is_on(self) -> bool {
        self.observe != Observe::Off || self.record > 0
    }

    /// Whether every event is timed.
    #[inline]
    pub(crate) fn is_complete(self) -> bool {
        self.observe == Observe::All || self.record > 0
    }
}

/// Words of a record of the ring: color and previous core, start, length and wait, label.
pub(crate) const WORDS: usize = 4;

/// A stamp's unit, as a power of two of nanoseconds. With 32 bits, stamps measure waits of up to
/// 137 s.
pub(crate) const STAMP_BITS: u32 = 5;

/// Clocks of two cores may differ by this many units, so a slightly negative wait counts as none.
const SKEW: u32 = 1 << 10;

pub(crate) fn stamp(now_ns: u64) -> u32 {
    ((now_ns >> STAMP_BITS) as u32).max(1)
}

/// The wait of an event with this stamp.
pub(crate) fn waited_ns(stamped: u32, now_ns: u64) -> u64 {
    let units = stamp(now_ns).wrapping_sub(stamped);
    if units > u32::MAX - SKEW { 0 } else { u64::from(units) << STAMP_BITS }
}

/// Chooses the events of a thread that get a stamp.
pub(crate) struct Stamping {
    /// Events until the next stamp.
    left: Cell<u32>,
    stamps: RefCell<Stamps>,
}

impl Stamping {
    pub(crate) const fn new() -> Self {
        Self { left: Cell::new(1), stamps: RefCell::new(Stamps::new()) }
    }

    /// The stamp of an event that is posted now; 0 for no stamp.
    #[inline]
    pub(crate) fn next(&self, noting: Noting, clock: &Clock) -> u32 {
        if !noting.is_on() {
            return 0;
        }
        let left = self.left.get() - 1;
        self.left.set(left.max(1));
        if left > 0 && !noting.is_complete() { 0 } else { self.stamped(clock) }
    }

    #[cold]
    fn stamped(&self, clock: &Clock) -> u32 {
        let now_ns = clock.now_ns();
        self.left.set(self.stamps.borrow_mut().stamped(now_ns));
        stamp(now_ns)
    }
}

/// The core that posted the event with this label; `None` for another thread.
#[inline]
pub(crate) fn poster(label: Label) -> Option<CoreIndex> {
    (label.from() != NOBODY as u16).then(|| CoreIndex(label.from().into()))
}
