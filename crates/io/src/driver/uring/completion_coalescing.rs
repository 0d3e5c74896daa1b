//! Completion coalescing: interrupt moderation for the ring.
//!
//! Waking a thread costs more than answering a small request. While completions are so dense that
//! several will arrive within [`GATHER`], a wait asks the kernel for that number, and for no longer
//! than that time (`min_wait_usec`, Linux 6.12). Sparse traffic is never delayed: a lone
//! connection's answer leaves at once. Pure: completions and times go in, the number to ask for
//! comes out. Tested below on invented time.

use std::time::Duration;
use vermeil_ablation::Mechanism;

/// Maximum coalescing time. Bench `serve`, 1 KB, 64 connections: most of the gain of 100 µs, at
/// half the delay.
pub(super) const GATHER: Duration = Duration::from_micros(50);

/// Expected completions per [`GATHER`] at which coalescing begins, and below which it ends. The
/// values differ for hysteresis. Guess: two connections in lockstep with their clients stay below
/// the first.
const BEGIN: u64 = 4;
const END: u64 = 3;

/// Maximum number of completions to ask for, because beyond it the gain per completion is noise.
const ASK_MAX: u64 = 32;

/// The window for the density.
const WINDOW: Duration = Duration::from_millis(1);

/// The density of the traffic.
#[derive(Default)]
pub(super) struct CompletionCoalescing {
    began: Option<Duration>,
    completions: u64,
    ask: u64,
}

impl CompletionCoalescing {
    /// `completions` arrived in a turn that ended at `now`, on any monotonic clock.
    pub(super) fn came(&mut self, completions: usize, now: Duration) {
        self.completions += completions as u64;
        let Some(began) = self.began else {
            self.began = Some(now);
            self.completions = 0;
            return;
        };
        let elapsed = now.saturating_sub(began);
        if elapsed < WINDOW {
            return;
        }
        let expected = u128::from(self.completions) * GATHER.as_nanos() / elapsed.as_nanos();
        let expected = u64::try_from(expected).unwrap_or(u64::MAX);
        let threshold = if self.ask > 1 { END } else { BEGIN };
        self.ask = if expected >= threshold { expected.min(ASK_MAX) } else { 1 };
        self.began = Some(now);
        self.completions = 0;
    }

    /// The number of completions for the next wait; 1 means that the first completion ends the
    /// wait.
    pub(super) fn ask(&self) -> u32 {
        if Mechanism::CompletionCoalescing.is_off() { 1 } else { self.ask.max(1) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns of `completions` each, `apart`; returns the requested number after each of `turns`.
    fn asked(
        gather: &mut CompletionCoalescing,
        start: Duration,
        completions: usize,
        apart: Duration,
        turns: u32,
    ) -> Vec<u32> {
        (0..turns)
            .map(|turn| {
                gather.came(completions, start + apart * turn);
                gather.ask()
            })
            .collect()
    }

    #[test]
    fn sparse_traffic_is_never_held_back() {
        let mut gather = CompletionCoalescing::default();
        let asked = asked(&mut gather, Duration::ZERO, 1, Duration::from_micros(20), 1000);
        assert!(asked.iter().all(|&ask| ask == 1), "one connection, 50,000 answers a second");
    }

    #[test]
    fn dense_traffic_gathers_and_a_pause_ends_it() {
        let mut gather = CompletionCoalescing::default();
        let dense = asked(&mut gather, Duration::ZERO, 2, Duration::from_micros(20), 200);
        assert_eq!(dense.last(), Some(&5), "100,000 a second are 5 in 50 µs");
        let after = asked(&mut gather, Duration::from_secs(1), 1, Duration::from_millis(1), 3);
        assert_eq!(after, [1, 1, 1]);
    }

    #[test]
    fn a_storm_asks_for_no_more_than_the_bound() {
        let mut gather = CompletionCoalescing::default();
        let storm = asked(&mut gather, Duration::ZERO, 500, Duration::from_micros(10), 300);
        assert_eq!(storm.last(), Some(&(ASK_MAX as u32)));
    }
}
