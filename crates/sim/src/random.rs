//! Random numbers that depend on a seed and a purpose, never on the order of calls.
//!
//! The n-th number of a stream is a mix of the seed, the stream's name and n. So two policies with
//! the same clients draw the same think times, and a replay draws the numbers of the first run. The
//! mixer is SplitMix64's finalizer (Steele, Lea, Flood 2014). Owns the streams and the
//! distributions. Tested below.

use crate::fixed;

/// The purpose of a stream. Streams with different purposes are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum StreamPurpose {
    Think = 1,
    Arrival,
    Branch,
    Duration,
    Key,
    Wake,
    Fault,
    Swarm,
    Start,
    Queue,
    Accept,
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct RandomStream {
    key: u64,
    count: u64,
}

impl RandomStream {
    /// The stream of `purpose` and `index` (a core, a client, a handler) under `seed`.
    pub(crate) fn new(seed: u64, purpose: StreamPurpose, index: u64) -> Self {
        let key = mix(mix(seed ^ (purpose as u64) << 56).wrapping_add(index));
        Self { key, count: 0 }
    }

    /// The next 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.count += 1;
        mix(self.key.wrapping_add(self.count.wrapping_mul(GOLDEN)))
    }

    /// A number below `bound`, which is at least 1.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        scale(self.next(), bound)
    }

    /// True in `permille` of 1,000 cases.
    pub(crate) fn chance(&mut self, permille: u32) -> bool {
        self.below(1000) < u64::from(permille)
    }

    /// An exponential variate with this mean.
    pub(crate) fn exponential(&mut self, mean: u64) -> u64 {
        (u128::from(fixed::exponential(self.next())) * u128::from(mean) / u128::from(fixed::ONE)) as u64
    }
}

/// A random number from `key` alone, for draws that belong to an object, not to a stream.
pub(crate) fn draw(seed: u64, purpose: StreamPurpose, key: u64) -> u64 {
    mix(mix(seed ^ (purpose as u64) << 56) ^ key.wrapping_mul(GOLDEN))
}

/// A number below `bound` from 64 random bits.
pub(crate) fn scale(random: u64, bound: u64) -> u64 {
    ((u128::from(random) * u128::from(bound)) >> 64) as u64
}

/// 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// A bijection that changes about half of the bits for any change of the input.
pub(crate) fn mix(mut value: u64) -> u64 {
    value = value.wrapping_add(GOLDEN);
    value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_and_name_determine_stream() {
        let draw = |seed, purpose, index| {
            let mut stream = RandomStream::new(seed, purpose, index);
            [stream.next(), stream.next()]
        };
        assert_eq!(draw(1, StreamPurpose::Think, 3), draw(1, StreamPurpose::Think, 3));
        assert_ne!(draw(1, StreamPurpose::Think, 3), draw(2, StreamPurpose::Think, 3));
        assert_ne!(draw(1, StreamPurpose::Think, 3), draw(1, StreamPurpose::Arrival, 3));
        assert_ne!(draw(1, StreamPurpose::Think, 3), draw(1, StreamPurpose::Think, 4));
    }

    #[test]
    fn distributions_have_stated_means() {
        let mut stream = RandomStream::new(7, StreamPurpose::Think, 0);
        let sum: u64 = (0..100_000).map(|_| stream.exponential(1_000)).sum();
        assert!((99_000_000..101_000_000).contains(&sum), "{sum}");
        let below: u64 = (0..100_000).map(|_| stream.below(11)).sum();
        assert!((495_000..505_000).contains(&below), "{below}");
        let chances = (0..100_000).filter(|_| stream.chance(50)).count();
        assert!((4_700..5_300).contains(&chances), "{chances}");
    }
}
