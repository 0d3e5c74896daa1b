//! How often in a row one other core has called a color, and when that brings the color to it.
//!
//! Two colors that answer each other from two cores pay for every event with lines that change caches, and often with a
//! wake-up; on one core they pay once. A thief that takes one of such a pair parts them, since the other one waits for an
//! answer and is not queued: this brings it after. Who is called by many, or from home as well, stays. Tested below.

use crate::{Candidate, CoreIndex, Stealing, steal::PATIENCE};

/// A color is called when an event is posted to it and none was queued: the core that called it last, if that was not its
/// own, and how often in a row. One word, so that cores can share it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Calls(pub u32);

/// Calls in a row by one core, and by no other, that bring a color to it. A move costs both sides what some ten calls from
/// afar do; who waits for a batch of tasks is called so often only by chance. Guess.
pub const CALLS_TO_COME: u32 = 8;

impl Calls {
    /// After one more call from `caller` to a color that lives on `home`.
    pub fn and(self, caller: CoreIndex, home: CoreIndex) -> Self {
        if caller == home {
            return Self::default();
        }
        let again = self.number() > 0 && self.0 >> 16 == caller.0 & 0xffff;
        let number = if again { (self.number() + 1).min(0xffff) } else { 1 };
        Self(caller.0 << 16 | number)
    }

    /// How often in a row.
    pub fn number(self) -> u32 {
        self.0 & 0xffff
    }
}

impl Stealing {
    /// Whether a color that has been called [`CALLS_TO_COME`] times goes to live with its caller, where it would wait for
    /// [`Candidate::wait_ns`]: not where it would wait longer than at home, but for what the move costs, and not so soon after
    /// another move that it bounces.
    pub fn comes_to_caller(self, color: &Candidate, wait_at_home_ns: u64, steal_ns: u64) -> bool {
        self == Self::Learned
            && color.wait_ns < wait_at_home_ns.saturating_add(steal_ns)
            && color.has_rested(steal_ns)
    }

    /// Whether a task that was just woken goes to who woke it, however often that has called it: where its turn comes `sooner_ns` sooner
    /// than at home, so much that a thief would take it from there for its wait alone. Now that costs no lock. Who spawns many tasks and
    /// waits for each would else come to its turn behind all of them, and begin to take their results when nobody has anything left to do.
    pub fn comes_to_its_turn(self, task: &Candidate, sooner_ns: u64, steal_ns: u64) -> bool {
        let move_ns = steal_ns.saturating_add(task.penalty_ns);
        self == Self::Learned && sooner_ns > PATIENCE.saturating_mul(move_ns) && task.has_rested(steal_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: CoreIndex = CoreIndex(0);
    const STEAL_NS: u64 = 1_000;
    const COLOR: Candidate =
        Candidate { worth_ns: 200, wait_ns: 3_000, penalty_ns: 100, since_move_ns: u64::MAX };

    #[test]
    fn calls_in_a_row_are_counted_and_a_call_from_home_ends_the_row() {
        let calls = |callers: &[u32]| {
            callers
                .iter()
                .fold(Calls::default(), |calls, caller| calls.and(CoreIndex(*caller), HOME))
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
        assert!(Stealing::Learned.comes_to_caller(&COLOR, 3_000, STEAL_NS));
        assert!(!Stealing::Learned.comes_to_caller(&COLOR, 1_500, STEAL_NS));
        assert!(!Stealing::Learned.comes_to_caller(
            &Candidate { since_move_ns: 2_000, ..COLOR },
            3_000,
            STEAL_NS
        ));
        assert!(!Stealing::TimeLeft.comes_to_caller(&COLOR, 3_000, STEAL_NS));
    }

    #[test]
    fn a_task_comes_to_where_its_turn_is_much_sooner() {
        let learned = Stealing::Learned;
        let patience_ns = PATIENCE * (STEAL_NS + COLOR.penalty_ns);
        assert!(!learned.comes_to_its_turn(&COLOR, patience_ns, STEAL_NS));
        assert!(learned.comes_to_its_turn(&COLOR, patience_ns + 1, STEAL_NS));
        let moved = Candidate { since_move_ns: 2_000, ..COLOR };
        assert!(!learned.comes_to_its_turn(&moved, 1_000_000, STEAL_NS), "it does not bounce");
        assert!(
            !Stealing::TimeLeft.comes_to_its_turn(&COLOR, 1_000_000, STEAL_NS),
            "as the documents have it"
        );
    }
}
