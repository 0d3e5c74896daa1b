//! Reproducible random numbers: a stream per user, drawn from the seed of the run.
//!
//! SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): one addition and three multiplications. The
//! streams of two seeds are independent. User 17 of seed 1 does the same in every run, on any
//! number of cores. Therefore runs are comparable. Tested here.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

impl Random {
    /// The stream of `user` in a run of `seed`.
    pub fn new(seed: u64, user: u64) -> Self {
        Self(mix(seed.wrapping_add(mix(user.wrapping_add(GOLDEN)))))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Uniform from 0 (included) to 1 (not included).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform over the integers below `bound`, which is at least 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Exponential with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Normal with mean 0 and deviation 1 (Box and Muller, 1958).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.unit()).ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(count: u32, mut draw: impl FnMut() -> f64) -> f64 {
        (0..count).map(|_| draw()).sum::<f64>() / f64::from(count)
    }

    #[test]
    fn stream_repeats_and_differs_from_other_streams() {
        let draw = |seed, user| {
            let mut random = Random::new(seed, user);
            [random.bits(), random.bits()]
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(2, 1));
        assert_ne!(draw(1, 2), draw(1, 3));
    }

    #[test]
    fn distributions_have_their_means() {
        let mut random = Random::new(7, 0);
        assert!((mean(100_000, || random.unit()) - 0.5).abs() < 0.005);
        assert!((mean(100_000, || random.exponential(3.0)) - 3.0).abs() < 0.05);
        assert!(mean(100_000, || random.normal()).abs() < 0.02);
        assert!((mean(100_000, || random.normal().powi(2)) - 1.0).abs() < 0.03);
        assert!((mean(100_000, || random.below(11) as f64) - 5.0).abs() < 0.05);
        assert!((0..1000).all(|_| random.below(1) == 0));
    }
}
