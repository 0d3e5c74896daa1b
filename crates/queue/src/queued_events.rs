//! The count of a color: a number of events and their worth, in one word.
//!
//! The protocol of the count is in `color.md`.

use crate::{
    canary::{Bug, planted},
    event::Label,
    sync::Ordering,
};
use std::ops::{Add, Sub};

/// The ordering of operations on the count.
#[inline(always)]
pub(crate) fn counting() -> Ordering {
    if planted(Bug::RelaxedCount) { Ordering::Relaxed } else { Ordering::AcqRel }
}

/// A number of events and their total worth in one word: the number in the lower half, the worth in
/// the upper half. Adding or subtracting two words adds or subtracts the parts. The worth is
/// signed, because an event may run before the event is counted (in place of a counted event). The
/// worth may wrap, and wraps back when the events that made the worth wrap have run.
#[derive(Clone, Copy)]
pub(crate) struct QueuedEvents(pub(crate) u64);

impl QueuedEvents {
    /// The unit of worth, in nanoseconds. The unit is finer than any threshold for stealing, and a
    /// color may hold two minutes of worth.
    const WORTH_UNIT_NS: u64 = 64;
    /// More events than this on one color abort the process, as too many owners of an `Arc` do,
    /// because the number must not overflow.
    pub(crate) const EVENTS_MAX: usize = (Self::AWAY as usize) / 2;

    /// A single event with no worth left.
    pub(crate) const SPENT: Self = Self(1);

    /// A mark above the number: the event of a task color waits.
    pub(crate) const POSTED: u64 = 1 << 31;

    /// A mark like `POSTED`: the event of a task color is queued on another color.
    pub(crate) const AWAY: u64 = 1 << 30;

    /// A single event.
    #[inline]
    pub(crate) fn event(label: Label) -> Self {
        Self((u64::from(label.worth_ns()).div_ceil(Self::WORTH_UNIT_NS) << 32) | 1)
    }

    pub(crate) fn number(self) -> usize {
        (self.0 & (Self::AWAY - 1)) as usize
    }

    pub(crate) fn is_posted(self) -> bool {
        self.0 & Self::POSTED != 0
    }

    pub(crate) fn posted(self) -> Self {
        Self(self.0 | Self::POSTED)
    }

    pub(crate) fn without_marks(self) -> Self {
        Self(self.0 & !(Self::POSTED | Self::AWAY))
    }

    pub(crate) fn worth_ns(self) -> u64 {
        let units = self.0.cast_signed() >> 32;
        units.max(0).cast_unsigned() * Self::WORTH_UNIT_NS
    }
}

impl Add for QueuedEvents {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

impl Sub for QueuedEvents {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }
}
