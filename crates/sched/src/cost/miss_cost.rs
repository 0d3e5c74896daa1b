//! Cache misses per run, if the machine counts misses: a second measure of a penalty.
//!
//! Time gives the cost of a move but is noisy; misses bound the part that caches may cause. The
//! counted caches are the private caches of levels 1 and 2, so misses say nothing about moves
//! between cores that share these caches. Leaves out the counting. Tested in `cost/tests.rs`.

use super::Ewma;
use crate::Distance;

/// Time of an extra miss, in nanoseconds, by class of distance: the latency of the line's origin.
/// The upper ends of the usual ranges, because the values make an upper bound: another core's L2
/// through L3 40 to 60 ns, memory 90 to 120, another node's memory 130 to 250.
const MISS_NS: [f32; Distance::CLASSES] = [0.0, 10.0, 20.0, 60.0, 120.0, 180.0, 250.0, 300.0];

/// Runs of each kind after which misses are believed. Fewer than for times
/// ([`super::PENALTY_SURE`]), because the clock and other threads disturb only times, and misses
/// only give a bound. Guess.
const MISSES_SURE: u32 = 4;

/// Misses of a handler per run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MissCost {
    warm: Ewma<32>,
    cold: [Ewma<16>; Distance::CLASSES - 1],
}

impl MissCost {
    /// Adds the misses of a run; `cold` as in [`super::RunSample`].
    pub fn observe(&mut self, cold: Option<Distance>, misses: u64) {
        match cold.and_then(|distance| distance.class().checked_sub(1)) {
            None => self.warm.observe(misses as f32),
            Some(index) => self.cold[index].observe(misses as f32),
        }
    }

    /// The time that the extra misses of a move over this distance explain at most, in nanoseconds.
    /// `None` until four runs of both kinds were seen, and where misses say nothing.
    pub fn penalty_upper_ns(&self, distance: Distance) -> Option<u64> {
        let class = distance.class();
        let cold = self.cold.get(class.checked_sub(1)?)?;
        if distance <= Distance::L2 || cold.samples() < MISSES_SURE || self.warm.samples() < MISSES_SURE {
            return None;
        }
        let more = (cold.upper() - self.warm.lower()).max(0.0);
        Some((more * MISS_NS[class]) as u64)
    }

    /// Misses of a warm run; `None` before any.
    pub fn warm(&self) -> Option<f32> {
        (self.warm.samples() > 0).then(|| self.warm.mean())
    }

    /// Merges another core's counts. Merge into a fresh copy.
    pub fn merge(&mut self, other: &Self) {
        self.warm.merge(&other.warm, self.warm.weight(), other.warm.weight());
        for (own, other) in self.cold.iter_mut().zip(&other.cold) {
            own.merge(other, own.weight(), other.weight());
        }
    }
}
