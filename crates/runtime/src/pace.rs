//! How long a core works on what one look at its sockets brings: an estimate of the work that waits, as time.
//!
//! A look brings completions; the time until the next look is what they took. Their mean times the completions of a new
//! look is the work that has just come in. Counts are no measure: a hundred small files are less than one archive.
//! Pure but for its cells; tested here.

use std::cell::Cell;

/// How much a new sample weighs in the mean: one part in so many. Guess: a few turns, some milliseconds.
const MEAN_WEIGHT: u64 = 8;

/// The pace of one core.
#[derive(Default)]
pub(crate) struct Pace {
    looked_ns: Cell<u64>,
    completions: Cell<u64>,
    each_ns: Cell<u64>,
}

impl Pace {
    /// The core is about to look again: what the last look brought is done.
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

    /// The core has looked; gives how long what came will take.
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
    fn what_waits_is_what_such_work_took() {
        let pace = Pace::default();
        assert_eq!(pace.looked(1000, 4), 0, "nothing is known yet");
        pace.done(1400);
        assert_eq!(pace.looked(2000, 10), 1000);
        pace.done(2000 + 10 * 900);
        assert_eq!(pace.looked(20_000, 1), 200, "one slow look moves the mean by an eighth");
    }

    #[test]
    fn a_look_that_brings_nothing_teaches_nothing() {
        let pace = Pace::default();
        pace.looked(0, 2);
        pace.done(200);
        assert_eq!(pace.looked(1000, 0), 0);
        pace.done(50_000);
        assert_eq!(pace.looked(60_000, 1), 100);
    }
}
