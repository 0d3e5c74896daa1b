//! What a steal costs, by distance, and what waking a core does.
//!
//! Owns the means of what thieves report. Leaves out the test whether a steal pays (`steal.rs` of the crate). Tested in
//! `cost/tests.rs`.

use super::Ewma;
use crate::Distance;

/// Steals at a distance after which their mean is believed.
const STEALS_SURE: u32 = 8;

/// What a steal is taken to cost before any was seen, in nanoseconds, by class of distance: a dozen cache lines change
/// hands (lock, two queues, color, first event), at 40 ns each within a cache of level 3, and in proportion to the
/// distance elsewhere. Guess; a few steals correct it.
const UNKNOWN_NS: [f32; Distance::CLASSES] = [100.0, 200.0, 300.0, 500.0, 1_000.0, 1_500.0, 2_000.0, 2_500.0];

/// What waking a parked core is taken to cost until one was timed, in nanoseconds: a futex wake and the way out of idle on a
/// server. Guess.
const WAKE_UNKNOWN_NS: f32 = 5_000.0;

/// How many times the mean a wake may have taken to count in full. A core whose cpu does something else is awake milliseconds later:
/// where that happens to one in ten, the mean is an eighth above what waking takes else.
const WAKE_OUTLIER: f32 = 2.0;

/// Learned costs of moving colors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StealCost {
    by_class: [Ewma<32>; Distance::CLASSES],
    wake: Ewma<32>,
}

impl StealCost {
    /// A successful steal from a victim at `distance` took the thief `ns`.
    pub fn observe(&mut self, distance: Distance, ns: u64) {
        let class = distance.class();
        observe_capped(&mut self.by_class[class], ns, UNKNOWN_NS[class], super::OUTLIER);
    }

    /// From the decision to wake a core to its first look at what it was woken for, `ns` went by.
    pub fn observe_wake(&mut self, ns: u64) {
        observe_capped(&mut self.wake, ns, WAKE_UNKNOWN_NS, WAKE_OUTLIER);
    }

    /// What a steal is taken to cost before any was seen, in nanoseconds.
    pub fn unseen_ns(distance: Distance) -> u64 {
        UNKNOWN_NS[distance.class()] as u64
    }

    /// Expected cost of a steal in nanoseconds.
    pub fn estimate_ns(&self, distance: Distance) -> u64 {
        let class = distance.class();
        blend(&self.by_class[class], UNKNOWN_NS[class])
    }

    /// What the mean cost is hardly above, in nanoseconds.
    pub fn upper_ns(&self, distance: Distance) -> u64 {
        let seen = &self.by_class[distance.class()];
        let estimate = self.estimate_ns(distance);
        if seen.samples() < STEALS_SURE { 2 * estimate } else { estimate.max(seen.upper() as u64) }
    }

    /// Expected time to wake a parked core, in nanoseconds.
    pub fn wake_ns(&self) -> u64 {
        blend(&self.wake, WAKE_UNKNOWN_NS)
    }

    /// Takes in what another core has seen. Merge into a fresh copy.
    pub fn merge(&mut self, other: &Self) {
        for (own, other) in self.by_class.iter_mut().zip(&other.by_class) {
            own.merge(other, own.weight(), other.weight());
        }
        self.wake.merge(&other.wake, self.wake.weight(), other.wake.weight());
    }
}

/// A thief that lost its cpu in the middle of a steal says nothing about steals, least of all among the first: it would not steal again
/// for long, and learn nothing. Where they do take so much longer the mean comes there by steps.
fn observe_capped(seen: &mut Ewma<32>, ns: u64, unknown: f32, outlier: f32) {
    seen.observe((ns as f32).min(outlier * seen.mean().max(unknown)));
}

/// The mean, led over from the guess as samples come.
fn blend(seen: &Ewma<32>, unknown: f32) -> u64 {
    let share = seen.samples().min(STEALS_SURE) as f32 / STEALS_SURE as f32;
    (share * seen.mean() + (1.0 - share) * unknown) as u64
}
