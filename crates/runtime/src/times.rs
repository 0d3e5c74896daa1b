//! Histograms of times: a core writes its histograms without a lock, and a reader adds up all
//! cores.
//!
//! Each power of two has eight steps, so a value is exact to an eighth. Tested below.

use std::{
    array,
    sync::atomic::{AtomicU64, Ordering},
};
use vermeil_sched::Classes;

type StepCounts = Classes<3>;

/// Number of counts in a histogram: times up to two to the power of 36 ns, 69 s. Longer times count
/// as the longest.
const COUNTS: usize = StepCounts::count(36);

/// A histogram that a single core writes.
pub(crate) struct SharedCounts {
    counts: [AtomicU64; COUNTS],
    sum_ns: AtomicU64,
}

impl Default for SharedCounts {
    fn default() -> Self {
        Self { counts: array::from_fn(|_| AtomicU64::new(0)), sum_ns: AtomicU64::new(0) }
    }
}

impl SharedCounts {
    /// Adds a time; only for the writing thread.
    pub(crate) fn add(&self, ns: u64) {
        let count = &self.counts[StepCounts::of(ns).min(COUNTS - 1)];
        crate::counters::add(count, 1);
        crate::counters::add(&self.sum_ns, ns);
    }

    fn add_to(&self, histogram: &mut Histogram) {
        for (sum, count) in histogram.counts.iter_mut().zip(&self.counts) {
            *sum += count.load(Ordering::Relaxed);
        }
        histogram.sum_ns += self.sum_ns.load(Ordering::Relaxed);
    }
}

/// A handler's times on a core, some 6 KiB, allocated at the first time.
#[derive(Default)]
pub(crate) struct HandlerTimes {
    pub(crate) queue_delay: SharedCounts,
    pub(crate) warm_run: SharedCounts,
    pub(crate) cold_run: SharedCounts,
}

impl HandlerTimes {
    pub(crate) fn add_to(&self, observed: &mut ObservedTimes) {
        self.queue_delay.add_to(&mut observed.queue_delay);
        self.warm_run.add_to(&mut observed.warm_run);
        self.cold_run.add_to(&mut observed.cold_run);
    }
}

/// Times of the events of a handler or of a core that were observed (see
/// [`crate::Builder::observe`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedTimes {
    /// From the post of an event to its begin, to 32 ns.
    pub queue_delay: Histogram,
    /// Runs whose color last ran on the same core, and whose poster was that core.
    pub warm_run: Histogram,
    /// Runs whose color or poster was on another core.
    pub cold_run: Histogram,
}

/// Counts of times, exact to an eighth.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; COUNTS],
    sum_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; COUNTS], sum_ns: 0 }
    }
}

impl Histogram {
    /// Number of counted times.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Mean time; 0 if empty.
    pub fn mean_ns(&self) -> u64 {
        self.sum_ns.checked_div(self.count()).unwrap_or(0)
    }

    /// The time that this share of the counted times, from 0 to 1, does not exceed; 0 if empty.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let rank = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let reached = |count: &u64| {
            seen += count;
            seen >= rank
        };
        self.counts.iter().position(reached).map_or(0, StepCounts::upper_ns)
    }

    /// The longest time and the count of each class that is not empty, in order of time.
    pub fn classes(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let classes = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        classes.map(|(class, count)| (StepCounts::upper_ns(class), *count))
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.classes()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_returns_its_counts() {
        let (counts, mut histogram) = (SharedCounts::default(), Histogram::default());
        assert_eq!((histogram.quantile_ns(0.5), histogram.mean_ns()), (0, 0));
        [5, 100, 100, 1_000, u64::from(u32::MAX) << 8].into_iter().for_each(|ns| counts.add(ns));
        counts.add_to(&mut histogram);
        let classes: Vec<_> = histogram.classes().collect();
        assert_eq!(classes, [(5, 1), (103, 2), (1_023, 1), ((1 << 36) - 1, 1)]);
        assert_eq!(
            (histogram.quantile_ns(0.0), histogram.quantile_ns(0.5), histogram.quantile_ns(1.0)),
            (5, 103, (1 << 36) - 1)
        );
        counts.add_to(&mut histogram);
        assert_eq!(histogram.count(), 10);
        assert_eq!(histogram.mean_ns(), (5 + 200 + 1_000 + (u64::from(u32::MAX) << 8)) / 5);
    }
}
