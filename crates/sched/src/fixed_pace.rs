//! How often colors that must stay run on a core: whether their next event would wait behind a
//! color that may run elsewhere.
//!
//! A core that reads a network queue hands out work. If the core runs such work itself, everything
//! that arrives meanwhile waits, although other cores are idle. If arrivals are rare, the work is
//! better off on its own core. So each core learns the interval between events of colors that must
//! stay. Leaves out the hand-over and the steal (`steal.rs`). Tested below.

use crate::CoreLoad;

/// Events of the longest batch that a core runs by default. A batch that is set longer looks like a
/// pause.
const BATCH: u64 = 32;

/// The activations of colors that must stay, on one core.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FixedPace {
    /// When the last activation began.
    began_ns: Option<u64>,
    /// Moving mean of the interval between two events; `None` before the second activation.
    interval_ns: Option<u64>,
}

impl FixedPace {
    /// An activation of a color that must stay begins, with `events` that have come since the last.
    pub fn observe(&mut self, events: usize, now_ns: u64) {
        if let Some(began_ns) = self.began_ns.replace(now_ns) {
            let passed_ns = now_ns.saturating_sub(began_ns) / events.max(1) as u64;
            let mean_ns = self.interval_ns.unwrap_or(passed_ns);
            self.interval_ns = Some(CoreLoad::smooth_ns(mean_ns, passed_ns));
        }
    }

    /// Whether a color that must stay probably gets an event within the next `run_ns`. After a
    /// pause, the next event is expected after as long again.
    pub fn expects_within(&self, run_ns: u64, now_ns: u64) -> bool {
        self.times(now_ns).is_some_and(|(interval_ns, passed_ns)| interval_ns.max(passed_ns) < run_ns)
    }

    /// Whether the events that come within the next `run_ns` would wait for more than `bound_ns` in
    /// sum, if the core does other work meanwhile. At a steady rate, `run_ns` divided by the
    /// interval come, and each waits for half of `run_ns` in the mean. During a batch the core
    /// notes no new event, so only a time without events that is longer than a batch counts as a
    /// pause. A thief runs no batch, so for a thief this expects too many events after a short gap.
    pub fn wait_longer_than(&self, bound_ns: u64, run_ns: u64, now_ns: u64) -> bool {
        self.times(now_ns).is_some_and(|(interval_ns, passed_ns)| {
            let is_pause = passed_ns > interval_ns.saturating_mul(BATCH);
            let expected_ns = if is_pause { passed_ns } else { interval_ns };
            run_ns.saturating_mul(run_ns) > expected_ns.saturating_mul(2).saturating_mul(bound_ns)
        })
    }

    /// The interval, and the time since the last activation.
    fn times(&self, now_ns: u64) -> Option<(u64, u64)> {
        Some((self.interval_ns?, now_ns.saturating_sub(self.began_ns?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_expects_events_of_fixed_colors() {
        let mut pace = FixedPace::default();
        pace.observe(1, 1_000);
        assert!(!pace.expects_within(u64::MAX, 1_000), "one activation shows no interval");
        for step in 2..20 {
            pace.observe(1, step * 1_000);
        }
        assert!(pace.expects_within(1_001, 19_500));
        assert!(!pace.expects_within(1_000, 19_500));
        assert!(!pace.expects_within(50_000, 19_000 + 50_000), "the events have ended");
        assert!(pace.wait_longer_than(30_000, 100_000, 19_000 + 160_000), "0.6 events wait for 50 us each");
        assert!(!pace.wait_longer_than(30_000, 100_000, 19_000 + 170_000));
        for step in 20..200 {
            pace.observe(10, step * 1_000);
        }
        assert!(pace.expects_within(150, 199_000), "ten events in each activation");
    }
}
