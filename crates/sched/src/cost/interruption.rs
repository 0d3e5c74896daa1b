//! Detects whether a timed run lost the cpu, from a count of preemptions that is read as seldom as
//! possible.
//!
//! Reading the count is a system call. So the count is read when an activation with timed runs
//! begins and the last reading is old, and when a run took so much longer than expected that a
//! switch may be the reason. A switch between the two readings is then blamed. A perf event's page
//! changes with every switch and would answer at the cost of a load (6,000 of 6,000 answers agreed
//! with the count). But a perf event makes each switch more expensive: 6.4 us instead of 4.2 on a
//! virtual machine. Leaves out the source of the count, and the clock. Tested below.

/// Maximum age of the count when an activation with timed runs begins, in nanoseconds. Reading the
/// count takes 0.2 to 0.5 us: at most a thousandth of this age. A long run may be wrongly blamed
/// for a switch that happened within this time before the activation, or in an earlier run of the
/// activation.
const FRESH_NS: u64 = 500_000;

/// Minimum duration of a switch, in nanoseconds, there and back with another thread run in between.
/// Measurements between two threads gave from 2 to 5 us.
const SWITCH_NS: u64 = 4_000;

/// The last known count of a thread's preemptions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interruptions {
    preemptions: u64,
    as_of_ns: u64,
}

impl Interruptions {
    /// An activation with timed runs begins: reads the count if the last reading is too old.
    pub fn begin(&mut self, now_ns: u64, preemptions: impl FnOnce() -> u64) {
        if now_ns.saturating_sub(self.as_of_ns) > FRESH_NS {
            *self = Self { preemptions: preemptions(), as_of_ns: now_ns };
        }
    }

    /// Whether a run that has just ended was interrupted: the run took more than twice the expected
    /// time plus a switch, and a switch happened since the last reading. A shorter delay moves no
    /// mean by much.
    pub fn spoiled(
        &mut self,
        now_ns: u64,
        run_ns: u64,
        expected_ns: u64,
        preemptions: impl FnOnce() -> u64,
    ) -> bool {
        if run_ns < expected_ns.saturating_mul(2).saturating_add(SWITCH_NS) {
            return false;
        }
        let before = std::mem::replace(self, Self { preemptions: preemptions(), as_of_ns: now_ns });
        self.preemptions != before.preemptions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unread() -> u64 {
        panic!("nobody has asked")
    }

    #[test]
    fn run_within_expected_time_reads_no_counter() {
        let mut seen = Interruptions::default();
        seen.begin(1_000_000, || 3);
        seen.begin(1_400_000, unread);
        assert!(!seen.spoiled(1_401_000, 1_000, 900, unread));
        assert!(!seen.spoiled(1_450_000, 45_000, 30_000, unread), "not twice as long");
        assert!(!seen.spoiled(1_454_000, 3_900, 0, unread), "too short for a switch");
    }

    #[test]
    fn counter_separates_interrupted_run_from_long_run() {
        let mut seen = Interruptions::default();
        seen.begin(1_000_000, || 3);
        assert!(!seen.spoiled(2_000_000, 1_000_000, 1_000, || 3));
        assert!(seen.spoiled(3_000_000, 1_000_000, 1_000, || 4));
        assert!(!seen.spoiled(4_000_000, 1_000_000, 1_000, || 4), "it was the last one's");
    }

    #[test]
    fn a_switch_of_long_ago_spoils_nothing() {
        let mut seen = Interruptions::default();
        seen.begin(1_000_000, || 3);
        seen.begin(9_000_000, || 8);
        assert!(!seen.spoiled(9_020_000, 20_000, 1_000, || 8));
    }
}
