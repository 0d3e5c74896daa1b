//! Keys with a realistic distribution: a few keys make up most of the stream.

use super::mix;

/// Keys from 0 to `count - 1`. Key `k` occurs with a probability proportional to `1 / (k + 1) ^
/// skew`.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// The sums of the weights up to each key.
    sums: Vec<f64>,
}

impl Zipf {
    /// `skew` 0 is uniform, 1 is Zipf's law.
    ///
    /// # Panics
    /// Without keys.
    pub fn new(count: u32, skew: f64) -> Self {
        assert!(count > 0, "a stream has at least one key");
        let weights = (0..count).map(|key| f64::from(key + 1).powf(-skew));
        let sums = weights.scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Self { sums: sums.collect() }
    }

    /// The first `count` keys of the sequence of `seed`.
    pub fn draw(&self, seed: u64, count: usize) -> Vec<u32> {
        let all = self.sums[self.sums.len() - 1];
        let mut state = seed;
        let mut next = || {
            state = mix(1, state);
            // The upper 53 bits, the precision of a double.
            let share = (state >> 11) as f64 / (1u64 << 53) as f64;
            self.sums.partition_point(|&sum| sum <= share * all) as u32
        };
        (0..count).map(|_| next()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_comes_as_often_as_the_law_says() {
        let keys = Zipf::new(100, 1.0).draw(1, 50_000);
        assert!(keys.iter().all(|&key| key < 100));
        // The inverse of the 100th harmonic number, 5.187.
        let first = keys.iter().filter(|&&key| key == 0).count();
        assert!((9_200..10_100).contains(&first), "{first}");
    }

    #[test]
    fn without_skew_all_keys_are_alike() {
        let keys = Zipf::new(4, 0.0).draw(1, 40_000);
        for key in 0..4 {
            let count = keys.iter().filter(|&&drawn| drawn == key).count();
            assert!((9_500..10_500).contains(&count), "{key}: {count}");
        }
    }
}
