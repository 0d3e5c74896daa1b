//! The remote-wake streak of a color: how often in a row one other core called the color, and when
//! the color moves to that core.
//!
//! Two colors that answer each other from two cores pay for every event with cache-line transfers,
//! and often with a wake-up. On one core the colors pay once. A thief that takes one color of such
//! a pair separates the pair, because the other color waits for an answer and is not queued. This
//! rule moves the other color afterwards. A color that several cores call, or the home core, stays.
//! Tested below.

use crate::{CoreIndex, StealCandidate, Stealing, steal::PATIENCE};
use vermeil_ablation::Mechanism;

/// A color is called when a producer posts an event to the empty color. The word holds the last
/// remote caller's core and the number of consecutive calls, in one word so that cores can share
/// the streak.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RemoteWakeStreak(pub u32);

/// Consecutive calls by one core that bring a color to that core. A move costs both sides as much
/// as about ten remote calls, so a color moves when the calls have cost about as much as the move:
/// the total is at most about twice the better of moving at once and never. A task that waits for a
/// batch of tasks reaches this number only by chance.
pub const REMOTE_WAKE_STREAK: u32 = 8;

impl RemoteWakeStreak {
    /// The streak after a further call from `caller` to a color on core `home`.
    pub fn and(self, caller: CoreIndex, home: CoreIndex) -> Self {
        if caller == home {
            return Self::default();
        }
        let again = self.number() > 0 && self.0 >> 16 == caller.0 & 0xffff;
        let number = if again { (self.number() + 1).min(0xffff) } else { 1 };
        Self(caller.0 << 16 | number)
    }

    /// The number of consecutive calls.
    pub fn number(self) -> u32 {
        self.0 & 0xffff
    }
}

impl Stealing {
    /// Whether a color that was called [`REMOTE_WAKE_STREAK`] times moves to the caller's core,
    /// where the color would wait for [`StealCandidate::wait_ns`]. The color does not move if the
    /// wait there is longer than at home by more than the cost of the move, or if the last move was
    /// too recent, because the color would bounce.
    pub fn moves_to_waker(self, color: &StealCandidate, wait_at_home_ns: u64, steal_ns: u64) -> bool {
        self == Self::Learned
            && !Mechanism::MoveToWaker.is_off()
            && color.wait_ns < wait_at_home_ns.saturating_add(steal_ns)
            && color.has_rested(steal_ns)
    }

    /// Whether a task that was just woken moves to the waker's core, regardless of the streak. The
    /// task moves if the task would run `sooner_ns` sooner than at home, and that is so much that a
    /// thief would take the task for the wait alone. A move at this point costs no lock. Without
    /// this rule a parent that spawns many tasks and waits for each would run behind all of them,
    /// and read results only when no core has any other work.
    pub fn moves_to_its_turn(self, task: &StealCandidate, sooner_ns: u64, steal_ns: u64) -> bool {
        let move_ns = steal_ns.saturating_add(task.penalty_ns);
        self == Self::Learned && sooner_ns > PATIENCE.saturating_mul(move_ns) && task.has_rested(steal_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: CoreIndex = CoreIndex(0);
    const STEAL_NS: u64 = 1_000;
    const COLOR: StealCandidate = StealCandidate {
        queued_ns: 200,
        wait_ns: 3_000,
        penalty_ns: 100,
        known_penalty_ns: 100,
        slower_ns: 0,
        since_move_ns: u64::MAX,
    };

    #[test]
    fn calls_in_a_row_are_counted_and_a_call_from_home_ends_the_row() {
        let calls = |callers: &[u32]| {
            callers
                .iter()
                .fold(RemoteWakeStreak::default(), |calls, caller| calls.and(CoreIndex(*caller), HOME))
                .number()
        };
        assert_eq!(calls(&[]), 0);
        assert_eq!(calls(&[3, 3, 3]), 3);
        assert_eq!(calls(&[3, 3, 4]), 1);
        assert_eq!(calls(&[3, 0, 3]), 1);
        assert_eq!(calls(&[3; 70_000]), 0xffff);
    }

    #[test]
    fn a_pair_comes_together_where_it_waits_no_longer() {
        assert!(Stealing::Learned.moves_to_waker(&COLOR, 3_000, STEAL_NS));
        assert!(!Stealing::Learned.moves_to_waker(&COLOR, 1_500, STEAL_NS));
        assert!(!Stealing::Learned.moves_to_waker(
            &StealCandidate { since_move_ns: 2_000, ..COLOR },
            3_000,
            STEAL_NS
        ));
        assert!(!Stealing::TimeLeft.moves_to_waker(&COLOR, 3_000, STEAL_NS));
    }

    #[test]
    fn a_task_comes_to_where_its_turn_is_much_sooner() {
        let learned = Stealing::Learned;
        let patience_ns = PATIENCE * (STEAL_NS + COLOR.penalty_ns);
        assert!(!learned.moves_to_its_turn(&COLOR, patience_ns, STEAL_NS));
        assert!(learned.moves_to_its_turn(&COLOR, patience_ns + 1, STEAL_NS));
        let moved = StealCandidate { since_move_ns: 2_000, ..COLOR };
        assert!(!learned.moves_to_its_turn(&moved, 1_000_000, STEAL_NS), "it does not bounce");
        assert!(
            !Stealing::TimeLeft.moves_to_its_turn(&COLOR, 1_000_000, STEAL_NS),
            "as the documents have it"
        );
    }
}
