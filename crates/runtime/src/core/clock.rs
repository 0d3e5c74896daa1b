//! The readings of a core's clocks: the runtime's clock, which timers use, and the measuring clock.
//!
//! Reading a clock costs tens of nanoseconds, so a core reads once per look at I/O and keeps the
//! readings here. Leaves out the pace of the looks (`pace.rs`).

use std::{
    cell::Cell,
    time::{Duration, Instant},
};
use vermeil_io::{Clock, monotonic_ns};
use vermeil_sched::TURN_NS;

/// The measuring clock's rate is wrong by less than one part in this number
/// ([`vermeil_io::Clock`]).
const CLOCK_ERROR_PART: u64 = 16_384;

/// The last readings of a core's clocks.
pub(crate) struct ClockReadings {
    /// Zero of the runtime's clock.
    epoch: Instant,
    /// The load page's clock at the epoch.
    epoch_page_ns: u64,
    /// The runtime's clock at the last look at I/O and timers.
    now_ns: Cell<u64>,
    /// The measuring clock at the last look.
    looked_ns: Cell<u64>,
    /// The last reading of the measuring clock.
    measured_ns: Cell<u64>,
}

impl ClockReadings {
    pub(super) fn new(epoch: Instant) -> Self {
        Self {
            epoch,
            epoch_page_ns: monotonic_ns().saturating_sub(epoch.elapsed().as_nanos() as u64),
            now_ns: Cell::new(0),
            looked_ns: Cell::new(0),
            measured_ns: Cell::new(0),
        }
    }

    /// The runtime's clock at the last look.
    pub(super) fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    /// The load page's clock at the last look.
    pub(super) fn page_ns(&self) -> u64 {
        self.epoch_page_ns + self.now_ns()
    }

    /// The current time on the runtime's clock, also within a long event. The result errs to the
    /// late side, by the possible error of the measuring clock's rate.
    pub(super) fn right_now_ns(&self, measuring: &Clock) -> u64 {
        let since_ns = measuring.now_ns().saturating_sub(self.looked_ns.get());
        self.now_ns() + since_ns + since_ns / CLOCK_ERROR_PART
    }

    /// Reads both clocks, for a look at I/O and timers.
    pub(super) fn look(&self, measuring: &Clock) {
        // In this order, because otherwise later times would be early by the gap between the two
        // readings.
        self.looked_ns.set(self.measure(measuring));
        self.read();
    }

    /// Reads the runtime's clock.
    pub(super) fn read(&self) {
        self.now_ns.set(u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }

    /// Reads the measuring clock.
    #[inline]
    pub(super) fn measure(&self, measuring: &Clock) -> u64 {
        let now_ns = measuring.now_ns();
        self.measured_ns.set(now_ns);
        now_ns
    }

    /// The last reading of the measuring clock.
    #[inline]
    pub(super) fn measured_ns(&self) -> u64 {
        self.measured_ns.get()
    }

    /// Whether the last measurement was more than `turn_ns` after the last look.
    #[inline]
    pub(super) fn is_turn_over(&self, turn_ns: u64) -> bool {
        self.measured_ns.get().saturating_sub(self.looked_ns.get()) > turn_ns
    }

    /// Whether the last look is more than a turn ago.
    pub(super) fn is_turn_over_now(&self) -> bool {
        self.epoch.elapsed().saturating_sub(Duration::from_nanos(self.now_ns()))
            > Duration::from_nanos(TURN_NS)
    }
}
