//! The work of the programs, independent of any runtime, so that every runtime does the same work.
//!
//! Pure functions. The results enter a program's checksum, so no compiler may omit the work.

pub mod image;
pub mod netpbm;
pub mod zipf;

use std::time::{Duration, Instant};

/// `count` square roots, each of a number that depends on the previous root, from `from`: uses only
/// the processor's divider.
pub fn square_roots(count: u32, from: f64) -> f64 {
    (0..count).fold(from, |root, number| (root + f64::from(number)).sqrt())
}

/// Approximate time of `count` square roots: some twenty cycles each, sequentially, on processors
/// of the last years.
pub fn square_roots_cost(count: u32) -> Duration {
    Duration::from_nanos(7 * u64::from(count))
}

/// `rounds` rounds of mixing (the step of SplitMix64, one after the other) from `seed`: work
/// without memory.
pub fn mix(rounds: u64, seed: u64) -> u64 {
    (0..rounds).fold(seed, |state, _| {
        let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^ (state >> 31)
    })
}

/// The speed of mixing on this machine, for work of a given duration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MixingPace {
    /// Rounds of [`mix`] in a microsecond.
    pub rounds_per_us: f64,
}

impl MixingPace {
    /// About the speed of processors of the last years. With a fixed pace the rounds of a program
    /// are fixed, so its checksum is the same in every run and on every machine.
    pub const FIXED: Self = Self { rounds_per_us: 250.0 };

    /// Measures for some ten milliseconds; the fastest of several tries, because other processes
    /// can only slow down a try.
    pub fn measure() -> Self {
        const ROUNDS: u64 = 200_000;
        let one = |seed| {
            let start = Instant::now();
            std::hint::black_box(mix(ROUNDS, std::hint::black_box(seed)));
            start.elapsed()
        };
        let fastest = (0..16).map(one).min().expect("several tries");
        Self { rounds_per_us: ROUNDS as f64 / (fastest.as_secs_f64() * 1e6) }
    }

    /// The rounds that last `time`, at least one.
    pub fn rounds(&self, time: Duration) -> u64 {
        (time.as_secs_f64() * 1e6 * self.rounds_per_us).round().max(1.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_a_function_of_its_arguments() {
        assert_eq!(mix(0, 7), 7);
        assert_eq!(mix(5, 7), mix(2, mix(3, 7)));
        assert_ne!(mix(1, 7), mix(1, 8));
        assert_eq!(square_roots(3, 2.0), square_roots(3, 2.0));
        assert_ne!(square_roots(3, 2.0), square_roots(4, 2.0));
    }

    #[test]
    fn a_time_is_at_least_one_round() {
        let pace = MixingPace { rounds_per_us: 500.0 };
        assert_eq!(pace.rounds(Duration::from_micros(2)), 1000);
        assert_eq!(pace.rounds(Duration::ZERO), 1);
        assert!(MixingPace::measure().rounds_per_us > 0.0);
    }
}
