//! The cost of a steal, by distance, and of waking a core.
//!
//! Contains the means of the thieves' reports. Leaves out the test whether a steal pays (`steal.rs`
//! of the crate). Tested in `cost/tests.rs`.

use super::Ewma;
use crate::Distance;

/// Steals at a distance after which the mean is believed.
const STEALS_SURE: u32 = 8;

/// Assumed cost of a steal before any was seen, in nanoseconds, by class of distance. A dozen cache
/// lines change hands (lock, two queues, color, first event), at 40 ns each within a level 3 cache,
/// and in proportion to the distance elsewhere. A start value, which a few timed steals replace.
const UNKNOWN_NS: [f32; Distance::CLASSES] = [100.0, 200.0, 300.0, 500.0, 1_000.0, 1_500.0, 2_000.0, 2_500.0];

/// Assumed cost of waking a parked core until a wake was timed, in nanoseconds: a futex wake and
/// the exit from idle on a server. A start value, which the first timed wake-ups replace.
const WAKE_UNKNOWN_NS: f32 = 5_000.0;

/// The multiple of the mean up to which a wake counts in full. A core whose cpu is busy with
/// another process wakes milliseconds later. If that happens to one in ten wakes, the mean is an
/// eighth above the usual time.
const WAKE_OUTLIER: f32 = 2.0;

/// Learned costs of moving colors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StealCost {
    by_class: [Ewma<32>; Distance::CLASSES],
    wake: Ewma<32>,
}

impl StealCost {
    /// Adds a successful steal from a victim at `distance` that took the thief `ns`.
    pub fn observe(&mut self, distance: Distance, ns: u64) {
        let class = distance.class();
        observe_capped(&mut self.by_class[class], ns, UNKNOWN_NS[class], super::OUTLIER);
    }

    /// Adds the time from the decision to wake a core to the core's first look for the work.
    pub fn observe_wake(&mut self, ns: u64) {
        observe_capped(&mut self.wake, ns, WAKE_UNKNOWN_NS, WAKE_OUTLIER);
    }

    /// Assumed cost of a steal before any was seen, in nanoseconds.
    pub fn unseen_ns(distance: Distance) -> u64 {
        UNKNOWN_NS[distance.class()] as u64
    }

    /// Expected cost of a steal in nanoseconds.
    pub fn estimate_ns(&self, distance: Distance) -> u64 {
        let class = distance.class();
        blend(&self.by_class[class], UNKNOWN_NS[class])
    }

    /// Upper confidence bound of the mean cost, in nanoseconds.
    pub fn upper_ns(&self, distance: Distance) -> u64 {
        let seen = &self.by_class[distance.class()];
        let estimate = self.estimate_ns(distance);
        if seen.samples() < STEALS_SURE { 2 * estimate } else { estimate.max(seen.upper() as u64) }
    }

    /// Expected time to wake a parked core, in nanoseconds.
    pub fn wake_ns(&self) -> u64 {
        blend(&self.wake, WAKE_UNKNOWN_NS)
    }

    /// Merges another core's data. Merge into a fresh copy.
    pub fn merge(&mut self, other: &Self) {
        for (own, other) in self.by_class.iter_mut().zip(&other.by_class) {
            own.merge(other, own.weight(), other.weight());
        }
        self.wake.merge(&other.wake, self.wake.weight(), other.wake.weight());
    }
}

/// Caps a sample. A thief that lost the cpu during a steal says nothing about steals. An outlier
/// among the first steals would stop stealing, and so learning, for long. If steals really take so
/// much longer, the mean arrives there by steps.
fn observe_capped(seen: &mut Ewma<32>, ns: u64, unknown: f32, outlier: f32) {
    seen.observe((ns as f32).min(outlier * seen.mean().max(unknown)));
}

/// The mean, blended with the guess until enough samples have arrived.
fn blend(seen: &Ewma<32>, unknown: f32) -> u64 {
    let share = seen.samples().min(STEALS_SURE) as f32 / STEALS_SURE as f32;
    (share * seen.mean() + (1.0 - share) * unknown) as u64
}
