//! A histogram of times: 32 classes for each power of two, so percentiles are exact to three
//! percent.
//!
//! Owns counting and percentiles. Integers only. Tested below.

use vermeil_sched::Classes;

/// 32 classes within a power of two.
type BucketCounts = Classes<5>;

/// Counts of times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimHistogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    max: u64,
}

impl Default for SimHistogram {
    fn default() -> Self {
        Self { counts: vec![0; BucketCounts::count(u64::BITS)], total: 0, sum: 0, max: 0 }
    }
}

impl SimHistogram {
    /// Adds a time.
    pub(crate) fn add(&mut self, ns: u64) {
        self.counts[BucketCounts::of(ns)] += 1;
        self.total += 1;
        self.sum += u128::from(ns);
        self.max = self.max.max(ns);
    }

    /// Adds all times of another histogram.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, other)| *own += other);
        self.total += other.total;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Number of times.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The mean; 0 for an empty histogram.
    pub fn mean_ns(&self) -> u64 {
        (self.sum / u128::from(self.total.max(1))) as u64
    }

    /// The longest time.
    pub fn max_ns(&self) -> u64 {
        self.max
    }

    /// The time that `permille` of 1,000 times do not exceed; 0 for an empty histogram.
    pub fn permille_ns(&self, permille: u64) -> u64 {
        let rank = (u128::from(self.total) * u128::from(permille)).div_ceil(1_000).max(1) as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return BucketCounts::upper_ns(index).min(self.max);
            }
        }
        self.max
    }

    /// How many of 1,000 times are at most `ns`; 1,000 for an empty histogram.
    pub fn within_permille(&self, ns: u64) -> u64 {
        let upto: u64 = self.counts[..=BucketCounts::of(ns)].iter().sum();
        (u128::from(upto) * 1_000).checked_div(u128::from(self.total)).unwrap_or(1_000) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn percentiles_are_right_to_three_percent(
            mut times in prop::collection::vec(0u64..1 << 40, 1..200),
            permille in 1u64..=1000,
        ) {
            let mut histogram = SimHistogram::default();
            times.iter().for_each(|&ns| histogram.add(ns));
            times.sort_unstable();
            let exact = times[(times.len() as u64 * permille).div_ceil(1000) as usize - 1];
            let read = histogram.permille_ns(permille);
            prop_assert!(read >= exact && read <= exact + exact / 32 + 1, "{} {}", read, exact);
        }
    }

    #[test]
    fn shares_within_a_bound() {
        let mut histogram = SimHistogram::default();
        (1..=100).for_each(|ms| histogram.add(ms * 1_000_000));
        assert!((495..=515).contains(&histogram.within_permille(50_000_000)));
        assert_eq!(SimHistogram::default().within_permille(1), 1_000);
    }
}
