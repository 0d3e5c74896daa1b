//! A histogram of times to three digits, with merging without loss.
//!
//! All histograms are HDR histograms of one shape: buckets of 64 ns up to 131 µs, and of a
//! thousandth above. Merging, and sending to another machine in HdrHistogram's compressed V2
//! format, moves counts of buckets. Therefore no count is lost. Tested here.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer as V2Reader, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

/// Number of significant digits.
const DIGITS: u8 = 3;
/// The resolution in nanoseconds: about the resolution of the clock.
const FINEST_NS: u64 = 64;

/// Whether this number of samples supports a percentile: at least ten samples must lie above.
pub fn supports(count: u64, percent: f64) -> bool {
    // Counted in ten-thousandths of a percent, because 100.0 - 99.9 is slightly less than 0.1.
    let beyond = ((100.0 - percent) * 10_000.0).round() as u128;
    u128::from(count) * beyond >= 10 * 1_000_000
}

/// A histogram of times.
#[derive(Clone, Debug, PartialEq)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        let mut histogram =
            Histogram::new_with_bounds(FINEST_NS, 2 * FINEST_NS, DIGITS).expect("bounds of one octave");
        histogram.auto(true);
        Self(histogram)
    }
}

impl Times {
    /// Adds a time.
    #[inline]
    pub fn record(&mut self, time: Duration) {
        self.record_n(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), 1);
    }

    /// Adds `count` times of `ns` nanoseconds.
    #[inline]
    pub fn record_n(&mut self, ns: u64, count: u64) {
        // Longer times count as a day, so that the memory stays bounded.
        const LONGEST_NS: u64 = 86_400_000_000_000;
        self.0.record_n(ns.min(LONGEST_NS), count).expect("the histogram grows");
    }

    /// Adds the times of another histogram.
    pub fn merge(&mut self, other: &Self) {
        // A merge of an empty histogram would cost as much as a merge of a full histogram.
        if !other.0.is_empty() {
            self.0.add(&other.0).expect("histograms of one shape");
        }
    }

    /// Removes all times and keeps the memory.
    pub fn clear(&mut self) {
        if !self.0.is_empty() {
            self.0.reset();
        }
    }

    /// Number of times.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time that `percent` of all times did not exceed. Zero for an empty histogram.
    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_percentile(percent))
    }

    /// The longest time, to three digits.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }

    /// The shortest time, to three digits.
    pub fn min(&self) -> Duration {
        Duration::from_nanos(self.0.min())
    }

    /// The mean.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.0.mean() as u64)
    }

    /// The standard deviation.
    pub fn deviation(&self) -> Duration {
        Duration::from_nanos(self.0.stdev() as u64)
    }

    /// The share, 0 to 1, of times up to `limit`. 1 for an empty histogram.
    pub(crate) fn share_within(&self, limit: Duration) -> f64 {
        if self.0.is_empty() {
            return 1.0;
        }
        self.count_within(limit) as f64 / self.0.len() as f64
    }

    /// Number of times up to `limit`, to three digits.
    pub fn count_within(&self, limit: Duration) -> u64 {
        self.0.count_between(0, u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Every non-empty bucket, with the highest time in nanoseconds and the count, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()))
    }

    /// The inverse of [`Times::buckets`].
    #[cfg(test)]
    pub(crate) fn from_buckets(buckets: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut times = Self::default();
        for (ns, count) in buckets {
            times.record_n(ns, count);
        }
        times
    }
}

impl Serialize for Times {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&self.0, &mut bytes).map_err(ser::Error::custom)?;
        serializer.serialize_str(&STANDARD.encode(bytes))
    }
}

impl<'de> Deserialize<'de> for Times {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text).map_err(de::Error::custom)?;
        let read: Histogram<u64> = V2Reader::new().deserialize(&mut &bytes[..]).map_err(de::Error::custom)?;
        // The counts go into a histogram of this shape. A histogram of another shape would lose
        // digits, so the read fails.
        if (read.sigfig(), read.low()) != (DIGITS, FINEST_NS) {
            return Err(de::Error::custom("the histogram has another shape"));
        }
        let mut times = Self::default();
        times.0.add(&read).map_err(de::Error::custom)?;
        Ok(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(seed: u64, count: u64) -> Times {
        let mut times = Times::default();
        let mut value = seed;
        for _ in 0..count {
            value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            times.record_n(value >> (20 + value % 30), 1);
        }
        times
    }

    #[test]
    fn merging_loses_nothing() {
        let (one, other) = (some(1, 10_000), some(2, 10_000));
        let mut merged = one.clone();
        merged.merge(&other);
        let both: Vec<_> = one.buckets().chain(other.buckets()).collect();
        assert_eq!(Times::from_buckets(both), merged);
        assert_eq!(merged.count(), 20_000);
    }

    #[test]
    fn buckets_make_the_same_histogram() {
        let times = some(3, 5_000);
        let again = Times::from_buckets(times.buckets());
        assert!(again.buckets().eq(times.buckets()));
        for percent in [0.0, 50.0, 99.9, 100.0] {
            assert_eq!(again.percentile(percent), times.percentile(percent));
        }
    }

    #[test]
    fn another_machine_gets_the_same_histogram() {
        for times in [Times::default(), some(4, 5_000)] {
            let text = serde_json::to_string(&times).unwrap();
            let again: Times = serde_json::from_str(&text).unwrap();
            assert!(again.buckets().eq(times.buckets()));
            assert_eq!((again.count(), again.max(), again.min()), (times.count(), times.max(), times.min()));
            let mut merged = again;
            merged.merge(&times);
            merged.record(Duration::from_secs(80_000));
            assert_eq!(merged.count(), 2 * times.count() + 1);
        }
        assert!(serde_json::from_str::<Times>("\"AAAA\"").is_err());
    }

    /// Regression: ten of 10,000 samples lie above 99.9 %, and the percentile was left out.
    #[test]
    fn percentile_needs_ten_samples_above() {
        for (percent, least) in [
            (50.0, 20),
            (75.0, 40),
            (99.0, 1000),
            (99.5, 2000),
            (99.9, 10_000),
            (99.95, 20_000),
            (99.99, 100_000),
        ] {
            assert!(supports(least, percent) && !supports(least - 1, percent), "{percent}");
        }
        assert!(!supports(u64::MAX, 100.0));
    }

    #[test]
    fn times_keep_three_digits() {
        let mut times = Times::default();
        times.record(Duration::from_micros(50));
        times.record(Duration::from_secs(3));
        assert!(times.percentile(50.0).abs_diff(Duration::from_micros(50)) <= Duration::from_nanos(64));
        assert!(times.max().abs_diff(Duration::from_secs(3)) <= Duration::from_millis(3));
        assert_eq!(times.share_within(Duration::from_secs(1)), 0.5);
        times.record_n(u64::MAX, 1);
        assert_eq!(times.count(), 3);
    }
}
