//! A settled load, watched: is it still the one the plan was chosen for?
//!
//! Owns the look and how often it is taken. Leaves out what follows (`adaptive.rs`). Tested in `control/tests.rs`.

use super::super::Observation;
use super::load::{Load, Profile};

/// Rounds between looks at a settled load, in nanoseconds: a change is noticed within two of them. A round costs some ten
/// microseconds, so that watching takes less than a thousandth.
const WATCH_NS: u64 = 50_000_000;

/// The same while nothing runs.
const IDLE_NS: u64 = 1_000_000_000;

/// Looks in a row that must find another load: one may be an accident.
const SHIFTS: u32 = 2;

/// Events that a look should see to say anything of shares; where they are slow, looks are farther apart.
const EVENTS: f64 = 50.0;

/// What is watched.
#[derive(Debug)]
pub(super) struct Watch {
    profile: Profile,
    handlers: usize,
    shifts: u32,
    retry_at_ns: u64,
    period_ns: u64,
}

/// What a look has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// The load is as it was.
    Steady,
    /// It is, and it is time to search again.
    Due,
    /// It is another, or the handlers are.
    Shifted,
}

impl Watch {
    /// Watches this load until it is time to search again.
    pub(super) fn new(load: &Load, seen: &Observation, retry_at_ns: u64) -> Self {
        Self {
            profile: load.profile(),
            handlers: seen.placed.len(),
            shifts: 0,
            retry_at_ns,
            period_ns: period_ns(load, seen),
        }
    }

    /// Looks at the load, which has taken `seen` in.
    pub(super) fn look(&mut self, load: &Load, now_ns: u64, seen: &Observation) -> Finding {
        self.period_ns = period_ns(load, seen);
        let enough = seen.events() as f64 >= EVENTS / 2.0;
        let shifted = enough && self.profile.shifted(&load.profile());
        self.shifts = if shifted { self.shifts + 1 } else { 0 };
        if self.shifts >= SHIFTS || self.handlers != seen.placed.len() {
            Finding::Shifted
        } else if enough && now_ns >= self.retry_at_ns {
            Finding::Due
        } else {
            Finding::Steady
        }
    }

    /// How long until the next look, in nanoseconds.
    pub(super) fn next_round_ns(&self) -> u64 {
        self.period_ns
    }
}

fn period_ns(load: &Load, seen: &Observation) -> u64 {
    match seen.events() {
        0 => IDLE_NS,
        _ => ((EVENTS / load.rate().max(1.0) * 1e9) as u64).clamp(WATCH_NS, IDLE_NS),
    }
}
