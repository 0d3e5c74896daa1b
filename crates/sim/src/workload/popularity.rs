//! The choice among equal objects: uniform, or by Zipf's law.
//!
//! Owns the sums and a guide into the sums, so that a choice among ten thousand objects reads only
//! a few sums. Integers only, because results must be the same on every machine. Tested below
//! against the search without the guide.

use crate::{fixed, random};

/// Objects for each entry of the guide: a choice then reads about two sums.
const GUIDED: usize = 2;

/// The popularity of objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Popularity {
    /// Cumulated popularity in 2^32nds; empty for a uniform choice.
    sums: Vec<u64>,
    /// The first object for each of the equal parts of the sum.
    guide: Vec<u32>,
}

impl Popularity {
    /// Zipf's law with an exponent in thousandths; 0 for a uniform choice.
    pub(crate) fn new(count: u32, skew_milli: u32) -> Self {
        if skew_milli == 0 {
            return Self::default();
        }
        let mut sum = 0;
        let weights = (1..=u64::from(count.max(1))).map(|rank| {
            sum += fixed::power_below_one(rank, u64::from(skew_milli)).max(1);
            sum
        });
        let sums: Vec<u64> = weights.collect();
        let parts = sums.len().div_ceil(GUIDED).next_power_of_two();
        let shift = 64 - parts.ilog2();
        let first = |part: u64| {
            let least = if shift == 64 { 0 } else { part << shift };
            search(&sums, random::scale(least, sum)) as u32
        };
        let guide = (0..parts as u64).map(first).collect();
        Self { sums, guide }
    }

    /// The object among `count` that 64 random bits choose.
    pub(crate) fn choose(&self, count: u32, random: u64) -> u32 {
        let Some(&total) = self.sums.last() else {
            return random::scale(random, u64::from(count)) as u32;
        };
        let at = random::scale(random, total);
        let part = random::scale(random, self.guide.len() as u64) as usize;
        let first = self.guide[part] as usize;
        let beyond = self.sums[first..].iter().position(|&sum| sum > at);
        (first + beyond.expect("less than all of them")) as u32
    }
}

/// The first object whose sum is greater than `at`.
fn search(sums: &[u64], at: u64) -> usize {
    sums.partition_point(|&sum| sum <= at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guide_agrees_with_search() {
        for (count, skew_milli) in [(1, 990), (3, 500), (1_000, 990), (777, 1_300)] {
            let popularity = Popularity::new(count, skew_milli);
            let total = *popularity.sums.last().unwrap();
            for draw in 0..10_000 {
                let random = if draw == 0 { u64::MAX } else { random::mix(draw) };
                let found = popularity.choose(count, random) as usize;
                assert_eq!(
                    found,
                    search(&popularity.sums, random::scale(random, total)),
                    "{count} {skew_milli}"
                );
            }
        }
    }

    #[test]
    fn equal_ones_are_meant_equally_often() {
        let popularity = Popularity::new(10, 0);
        let third = (0..10_000).filter(|&draw| popularity.choose(10, random::mix(draw)) == 3).count();
        assert!((900..1_100).contains(&third), "{third}");
    }
}
