//! How often colors that must stay run on a core: whether their next event would wait behind a
//! color that may run elsewhere.
//!
//! A core that reads a network queue hands out work. If the core runs such work itself, everything
//! that arrives meanwhile waits, although other cores are idle. If arrivals are rare, the work is
//! better off on its own core. So each core learns the interval between events of colors that must
//! stay. Leaves out the hand-over and the steal (`steal.rs`). Tested below.

use crate::CoreLoad;

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
        let (Some(began_ns), Some(interval_ns)) = (self.began_ns, self.interval_ns) else { return false };
        interval_ns.max(now_ns.saturating_sub(began_ns)) < run_ns
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
        for step in 20..200 {
            pace.observe(10, step * 1_000);
        }
        assert!(pace.expects_within(150, 199_000), "ten events in each activation");
    }
}
