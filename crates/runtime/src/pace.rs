//! The work of a core per look at its sockets: an estimate of the waiting work, as time.
//!
//! A look brings completions, and the core handles these until the next look. The mean time of a
//! completion, multiplied by the completions of a new look, estimates the new work. Counts are no
//! measure, because a hundred small files are less work than a single archive. No clock and no I/O;
//! tested here.

use std::cell::Cell;

/// The weight of a new sample in the mean: one part in this number, the gain that RFC 6298 gives to
/// a smoothed round-trip time.
const MEAN_WEIGHT: u64 = 8;

/// The pace of a core.
#[derive(Default)]
pub(crate) struct CorePace {
    looked_ns: Cell<u64>,
    completions: Cell<u64>,
    each_ns: Cell<u64>,
}

impl CorePace {
    /// The core is about to look again, so the completions of the last look are handled.
    pub(crate) fn done(&self, now_ns: u64) {
        let completions = self.completions.take();
        if completions == 0 {
            return;
        }
        let sample = now_ns.saturating_sub(self.looked_ns.get()) / completions;
        let mean = match self.each_ns.get() {
            0 => sample,
            mean => (mean * (MEAN_WEIGHT - 1) + sample) / MEAN_WEIGHT,
        };
        self.each_ns.set(mean);
    }

    /// The core has looked. Returns the expected time for the new completions.
    pub(crate) fn looked(&self, now_ns: u64, completions: u64) -> u64 {
        self.looked_ns.set(now_ns);
        self.completions.set(completions);
        completions.saturating_mul(self.each_ns.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_predicts_work_from_past_completions() {
        let pace = CorePace::default();
        assert_eq!(pace.looked(1000, 4), 0, "nothing is known yet");
        pace.done(1400);
        assert_eq!(pace.looked(2000, 10), 1000);
        pace.done(2000 + 10 * 900);
        assert_eq!(pace.looked(20_000, 1), 200, "one slow look moves the mean by an eighth");
    }

    #[test]
    fn empty_look_leaves_the_pace_unchanged() {
        let pace = CorePace::default();
        pace.looked(0, 2);
        pace.done(200);
        assert_eq!(pace.looked(1000, 0), 0);
        pace.done(50_000);
        assert_eq!(pace.looked(60_000, 1), 100);
    }
}
