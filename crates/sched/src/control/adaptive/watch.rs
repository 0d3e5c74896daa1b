//! A settled load, watched: is it still the load that the plan was chosen for?
//!
//! Contains the check and its interval. Leaves out the consequence (`adaptive.rs`). Tested in
//! `control/tests.rs`.

use super::super::Observation;
use super::load::{LoadProfile, SmoothedLoad};

/// Interval between checks of a settled load, in nanoseconds: a change is noticed within two
/// intervals. A round costs some ten microseconds, so watching takes less than a thousandth.
const WATCH_NS: u64 = 50_000_000;

/// The same interval while nothing runs.
const IDLE_NS: u64 = 1_000_000_000;

/// Consecutive checks that must find a changed load, because a single check may be an accident.
const SHIFTS: u32 = 2;

/// Events that a check should see to judge shares. If events are slow, checks are farther apart.
const EVENTS: f64 = 50.0;

/// The state of the watch.
#[derive(Debug)]
pub(super) struct LoadWatch {
    profile: LoadProfile,
    handlers: usize,
    shifts: u32,
    retry_at_ns: u64,
    period_ns: u64,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchFinding {
    /// The load is unchanged.
    Steady,
    /// The load is unchanged, and a new search is due.
    Due,
    /// The load or the set of handlers has changed.
    Shifted,
}

impl LoadWatch {
    /// Watches this load until the next search is due.
    pub(super) fn new(load: &SmoothedLoad, seen: &Observation, retry_at_ns: u64) -> Self {
        Self {
            profile: load.profile(),
            handlers: seen.placed.len(),
            shifts: 0,
            retry_at_ns,
            period_ns: period_ns(load, seen),
        }
    }

    /// Checks the load, which has absorbed `seen`.
    pub(super) fn look(&mut self, load: &SmoothedLoad, now_ns: u64, seen: &Observation) -> WatchFinding {
        self.period_ns = period_ns(load, seen);
        let enough = seen.events() as f64 >= EVENTS / 2.0;
        let shifted = enough && self.profile.shifted(&load.profile());
        self.shifts = if shifted { self.shifts + 1 } else { 0 };
        if self.shifts >= SHIFTS || self.handlers != seen.placed.len() {
            WatchFinding::Shifted
        } else if enough && now_ns >= self.retry_at_ns {
            WatchFinding::Due
        } else {
            WatchFinding::Steady
        }
    }

    /// Time until the next check, in nanoseconds.
    pub(super) fn next_round_ns(&self) -> u64 {
        self.period_ns
    }
}

fn period_ns(load: &SmoothedLoad, seen: &Observation) -> u64 {
    match seen.events() {
        0 => IDLE_NS,
        _ => ((EVENTS / load.rate().max(1.0) * 1e9) as u64).clamp(WATCH_NS, IDLE_NS),
    }
}
