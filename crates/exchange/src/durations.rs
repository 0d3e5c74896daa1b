//! Counts of durations in classes, each exact to a quarter.
//!
//! Leaves out the subjects: answers, PHP pools and CGI programs. Tested below.

use std::time::Duration;
use vermeil::Classes;

/// Classes of durations: a value is exact to a quarter.
type DurationClasses = Classes<2>;

/// Number of duration classes: up to two to the power of 44 ns, 4.9 hours, in 1.4 KB. Longer
/// durations count as the longest. Programs and downloads may take hours.
const DURATIONS: usize = DurationClasses::count(44);

/// Durations of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurationCounts {
    classes: Box<[u64; DURATIONS]>,
    /// Sum of all durations, in nanoseconds.
    pub sum_ns: u64,
}

/// The times of programs: how long requests waited for a program, and how long programs took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramTimes {
    /// How long requests waited for a program.
    pub wait: DurationCounts,
    /// How long programs took for an answer.
    pub run: DurationCounts,
}

impl Default for DurationCounts {
    fn default() -> Self {
        Self { classes: Box::new([0; DURATIONS]), sum_ns: 0 }
    }
}

impl DurationCounts {
    /// Counts one duration.
    #[inline]
    pub fn count(&mut self, duration_ns: u64) {
        self.classes[DurationClasses::of(duration_ns).min(DURATIONS - 1)] += 1;
        self.sum_ns = self.sum_ns.wrapping_add(duration_ns);
    }

    /// The longest duration and the count of each class that is not empty, in order.
    pub fn classes(&self) -> impl Iterator<Item = (u64, u64)> {
        let classes = self.classes.iter().copied().enumerate().filter(|(_, count)| *count > 0);
        classes.map(|(class, count)| (DurationClasses::upper_ns(class), count))
    }

    /// The duration that this share of the durations, from 0 to 1, did not exceed. 0 without
    /// durations.
    pub fn ns_at(&self, share: f64) -> u64 {
        let all: u64 = self.classes.iter().sum();
        let rank = ((all as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let mut classes = self.classes();
        let reached = classes.find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        reached.map_or(0, |(ns, _)| ns)
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.classes.iter_mut().zip(other.classes.iter()).for_each(|(sum, count)| *sum += count);
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
    }
}

/// A time in nanoseconds.
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact_to_a_quarter() {
        let mut counts = DurationCounts::default();
        assert_eq!(counts.ns_at(0.5), 0);
        for ns in [1000, 1_000_000, u64::MAX / 2] {
            counts.count(ns);
        }
        let classes: Vec<_> = counts.classes().collect();
        assert_eq!(classes, [(1023, 1), ((1 << 20) - 1, 1), ((1 << 44) - 1, 1)]);
        assert_eq!(
            [counts.ns_at(0.3), counts.ns_at(0.5), counts.ns_at(1.0)],
            [1023, (1 << 20) - 1, (1 << 44) - 1]
        );
    }

    /// Regression: a run of ten minutes counted as 69 s.
    #[test]
    fn long_run_is_exact_to_a_quarter() {
        let mut counts = DurationCounts::default();
        let ten_minutes = nanoseconds(Duration::from_secs(600));
        counts.count(ten_minutes);
        let counted = counts.ns_at(1.0);
        assert!((ten_minutes..ten_minutes * 5 / 4).contains(&counted), "{counted} ns");
    }
}
