//! When a color is worth a steal, and when a sleeping core is worth waking for it.
//!
//! [`Stealing::TimeLeft`] is Mely's rule: a color goes when the time it stands for, lessened by its handlers' penalties,
//! exceeds the cost of a steal. [`Stealing::Learned`] asks two questions with learned numbers: does the color finish
//! sooner elsewhere (latency), and does the time it stands for repay the move at that distance (throughput)? The
//! same test is made before anybody is woken, so that a short event wakes no core for nothing. What is caught behind a long
//! event fails the second question and is freed by a third: patience. Tested below on invented numbers.

use crate::{Hint, Order};

/// Which colors a thief takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stealing {
    /// None: a color stays where it is.
    #[default]
    Never,
    /// Any that is not running, found by a scan: Libasync-SMP.
    Anything,
    /// Those whose time exceeds the cost of a steal, nearest victims first: Mely.
    TimeLeft,
    /// Those that finish sooner elsewhere and repay the move.
    Learned,
}

/// A color as a thief weighs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Time its queued events are expected to take, as [`Stealing::worth_ns`] counts it.
    pub worth_ns: u64,
    /// How long it will wait where it is.
    pub wait_ns: u64,
    /// What it takes longer after a move over this distance.
    pub penalty_ns: u64,
    /// Since it was last moved; as large as one likes if never.
    pub since_move_ns: u64,
}

/// Most colors that a thief takes in one visit: the victim's lock is held meanwhile. Guess.
pub const HAUL_MAX: usize = 32;

/// How many times the cost of a move the queued time must be. From Mely: 1; no bench has shown a better one.
const REPAID: u64 = 1;

/// How many times the cost of a move a color may be kept waiting, however little it stands for. At a move of 3 us, 50 us:
/// far above what a turn of short events takes, far below what a person or a deadline notices. Guess.
pub(crate) const PATIENCE: u64 = 16;

/// How many times the cost of a move must pass between two moves of a color: it must not bounce. Guess.
const COOLDOWN: u64 = 4;

impl Candidate {
    /// Whether its last move, like one that costs `steal_ns` now, was long enough ago.
    pub(crate) fn has_rested(&self, steal_ns: u64) -> bool {
        self.since_move_ns > COOLDOWN.saturating_mul(steal_ns.saturating_add(self.penalty_ns))
    }
}

impl Stealing {
    /// How the queues are kept.
    pub fn order(self) -> Order {
        match self {
            Self::Anything => Order::Events,
            Self::Never | Self::TimeLeft | Self::Learned => Order::Colors,
        }
    }

    /// Whether cores look for work elsewhere at all.
    pub fn is_on(self) -> bool {
        self != Self::Never
    }

    /// Whether near victims are asked before far ones; otherwise the busiest first.
    pub fn prefers_near(self) -> bool {
        matches!(self, Self::TimeLeft | Self::Learned)
    }

    /// What one event adds to its color's worth, in nanoseconds: its expected time, which Mely divides by the annotated
    /// penalty of its handler (at least 1) so that what suffers from a move is taken last.
    pub fn worth_ns(self, cost_ns: u64, penalty_divisor: u32) -> u64 {
        match self {
            Self::TimeLeft => cost_ns / u64::from(penalty_divisor.max(1)),
            Self::Never | Self::Anything | Self::Learned => cost_ns,
        }
    }

    /// Whether anything that waits on a core that looks like `owner` may pay: if not, its queue need not be asked.
    pub fn may_pay(self, owner: &Hint, now_ns: u64, steal_ns: u64) -> bool {
        owner.stealable > 0 && (self != Self::Learned || owner.wait_ns(now_ns) > steal_ns)
    }

    /// Whether to take this color, when a steal over the distance costs `steal_ns`.
    pub fn pays(self, color: &Candidate, steal_ns: u64) -> bool {
        match self {
            Self::Never => false,
            Self::Anything => true,
            Self::TimeLeft => color.worth_ns > steal_ns,
            Self::Learned => {
                let move_ns = steal_ns.saturating_add(color.penalty_ns);
                color.wait_ns > move_ns
                    && (color.worth_ns > REPAID.saturating_mul(move_ns)
                        || color.wait_ns > PATIENCE.saturating_mul(move_ns))
                    && color.has_rested(steal_ns)
            }
        }
    }

    /// Whether to wake a sleeping core that would steal `color` just queued on a core that looks like `owner`: it would
    /// be `wake_ns` late, and take more than this one.
    pub fn wakes(self, color: &Candidate, owner: &Hint, steal_ns: u64, wake_ns: u64) -> bool {
        match self {
            Self::Never => false,
            Self::Anything => owner.running_since_ns.is_some() || owner.waiting > 1,
            Self::TimeLeft => {
                self.pays(color, steal_ns) && (owner.running_since_ns.is_some() || owner.waiting > 1)
            }
            Self::Learned => {
                let haul_ns = color.worth_ns.max(self.amount_ns(owner.backlog_ns(), 0));
                // It rests from its last move as long as its next one takes, whoever has to be woken.
                let haul = Candidate { worth_ns: haul_ns, since_move_ns: u64::MAX, ..*color };
                self.pays(color, steal_ns) && self.pays(&haul, steal_ns.saturating_add(wake_ns))
            }
        }
    }

    /// Whether `color`, to which something was just posted and whose core sleeps, runs on the poster's core instead, where it
    /// would wait for [`Candidate::wait_ns`]: when running it there, moved state and all, takes less than waking its own core,
    /// and the wait is short. Two that talk come together by it.
    pub fn comes_to_poster(self, color: &Candidate, wake_ns: u64) -> bool {
        self == Self::Learned
            && color.worth_ns.saturating_add(color.penalty_ns) < wake_ns
            && color.wait_ns < PATIENCE.saturating_mul(wake_ns)
    }

    /// How much a thief takes beyond the first color, in nanoseconds of work: half of what it lacks against its victim, and no more than it runs
    /// before it looks again.
    pub fn amount_ns(self, victim_backlog_ns: u64, own_backlog_ns: u64) -> u64 {
        match self {
            // One color per steal, as the documents have it.
            Self::Never | Self::Anything | Self::TimeLeft => 0,
            Self::Learned => (victim_backlog_ns.saturating_sub(own_backlog_ns) / 2).min(AMOUNT_NS_MAX),
        }
    }

    /// Whether a core that has found nothing goes on looking for [`LINGER_NS`] before it sleeps, when it has looked in vain so
    /// many times since it last found something: only if what it has just done was stolen, since more is likely to come from
    /// there. At most one wait in vain for each time it was woken for something.
    pub fn lingers(self, looked: u32) -> bool {
        self == Self::Learned && looked == 0
    }

    /// When the sentinel, the one sleeping core that watches, must look at another again; `looked`: how often it has
    /// looked in vain since it last found something. `None` if nothing runs there: whoever begins to run something there
    /// calls a sentinel again when something comes to wait behind it.
    pub fn look_again_ns(self, other: &Hint, now_ns: u64, steal_ns: u64, looked: u32) -> Option<u64> {
        if self != Self::Learned || other.running_since_ns.is_none() {
            return None;
        }
        if other.stealable == 0 {
            return Some(WATCH_NS);
        }
        let patience_ns = PATIENCE.saturating_mul(steal_ns).min(WATCH_NS);
        let left_ns = patience_ns.saturating_sub(other.running_ns(now_ns));
        Some(left_ns.max(patience_ns << looked.min(10)).min(WATCH_NS))
    }
}

/// Longest time between two looks of a sentinel while anything runs, in nanoseconds: the bound on how long a short event can be
/// caught behind a long one. A thousand looks a second are a few thousandths of a sleeping core.
pub const WATCH_NS: u64 = 1_000_000;

/// How long a core goes on looking before it sleeps, in nanoseconds: about what sleeping and being woken take both sides, so
/// that it never loses more than twice the best it could have done.
pub const LINGER_NS: u64 = 10_000;

/// Most work that one visit takes, in nanoseconds. Guess: a turn.
const AMOUNT_NS_MAX: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const STEAL_NS: u64 = 1_000;
    const COLOR: Candidate =
        Candidate { worth_ns: 10_000, wait_ns: 10_000, penalty_ns: 500, since_move_ns: u64::MAX };

    fn busy(waiting: u32) -> Hint {
        Hint {
            running_since_ns: Some(0),
            expected_ns: 1_000,
            activation_ns: 1_000,
            waiting,
            stealable: waiting,
        }
    }

    #[test]
    fn a_long_color_that_waits_goes() {
        assert!(Stealing::Learned.pays(&COLOR, STEAL_NS));
        assert!(Stealing::TimeLeft.pays(&COLOR, STEAL_NS));
        assert!(!Stealing::Never.pays(&COLOR, STEAL_NS));
    }

    /// A thief took the lock of every core that had anything, to find each time that nothing there waits for long.
    #[test]
    fn where_nothing_waits_long_no_queue_is_asked() {
        let (owner, late) = (busy(1), busy(4));
        assert!(!Stealing::Learned.may_pay(&owner, 500, STEAL_NS));
        assert!(Stealing::Learned.may_pay(&late, 500, STEAL_NS));
        assert!(Stealing::TimeLeft.may_pay(&owner, 500, STEAL_NS));
        assert!(!Stealing::TimeLeft.may_pay(&busy(0), 500, STEAL_NS));
        assert_eq!(late.wait_ns(500), 2_500);
        let here = Candidate { wait_ns: owner.wait_ns(500), penalty_ns: 0, ..COLOR };
        assert!(!Stealing::Learned.pays(&here, STEAL_NS), "the rule that the queue would be asked by");
    }

    #[test]
    fn a_color_that_would_finish_where_it_is_stays() {
        assert!(!Stealing::Learned.pays(&Candidate { wait_ns: 1_200, ..COLOR }, STEAL_NS));
    }

    #[test]
    fn a_short_color_stays_until_its_patience_ends() {
        let short = Candidate { worth_ns: 1_000, ..COLOR };
        assert!(!Stealing::Learned.pays(&short, STEAL_NS));
        assert!(!Stealing::TimeLeft.pays(&short, STEAL_NS));
        assert!(Stealing::Learned.pays(&Candidate { wait_ns: 20_000_000, ..short }, STEAL_NS));
    }

    #[test]
    fn a_heavy_penalty_keeps_a_color_at_home() {
        assert!(!Stealing::Learned.pays(&Candidate { penalty_ns: 50_000, ..COLOR }, STEAL_NS));
        assert_eq!(Stealing::TimeLeft.worth_ns(8_000, 10), 800);
        assert_eq!(Stealing::Learned.worth_ns(8_000, 10), 8_000);
    }

    #[test]
    fn a_color_does_not_bounce() {
        assert!(!Stealing::Learned.pays(&Candidate { since_move_ns: 5_000, ..COLOR }, STEAL_NS));
    }

    #[test]
    fn short_events_wake_nobody() {
        let short = Candidate { worth_ns: 2_000, wait_ns: 2_000, ..COLOR };
        assert!(!Stealing::Learned.wakes(&short, &busy(1), STEAL_NS, 5_000));
        assert!(Stealing::Learned.wakes(&COLOR, &busy(1), STEAL_NS, 5_000));
        assert!(Stealing::Learned.wakes(&COLOR, &busy(1), STEAL_NS, 8_000));
        assert!(!Stealing::Learned.wakes(&COLOR, &busy(1), STEAL_NS, 9_000), "it has begun by then");
        assert!(Stealing::Anything.wakes(&short, &busy(1), STEAL_NS, 5_000));
        assert!(!Stealing::TimeLeft.wakes(&COLOR, &Hint { waiting: 1, ..Hint::default() }, STEAL_NS, 5_000));
    }

    /// A wake that takes long was never repaid by any one of a thousand short events.
    #[test]
    fn many_short_events_repay_a_wake_together() {
        let (steal_ns, wake_ns) = (200, 30_000);
        let one = |waiting: u32| {
            let color = Candidate {
                worth_ns: 1_000,
                penalty_ns: 100,
                wait_ns: busy(waiting).wait_ns(0),
                since_move_ns: u64::MAX,
            };
            Stealing::Learned.wakes(&color, &busy(waiting), steal_ns, wake_ns)
        };
        assert!(!one(50));
        assert!(one(70));
    }

    #[test]
    fn what_is_done_before_a_core_is_awake_runs_where_it_was_posted() {
        let short = Candidate { worth_ns: 500, ..COLOR };
        assert!(Stealing::Learned.comes_to_poster(&short, 3_000));
        assert!(!Stealing::Learned.comes_to_poster(&Candidate { penalty_ns: 2_500, ..short }, 3_000));
        assert!(!Stealing::Learned.comes_to_poster(&Candidate { wait_ns: 1_000_000, ..short }, 3_000));
        assert!(!Stealing::Learned.comes_to_poster(&COLOR, 3_000));
        assert!(!Stealing::TimeLeft.comes_to_poster(&short, 3_000));
    }

    /// A thief that emptied its victim slept at once, and was woken for each of the next few colors.
    #[test]
    fn only_who_has_just_stolen_lingers() {
        assert!(Stealing::Learned.lingers(0));
        assert!(!Stealing::Learned.lingers(1));
        assert!(!Stealing::TimeLeft.lingers(0), "Mely's thieves are as the document has them");
    }

    #[test]
    fn the_sentinel_looks_when_patience_ends_and_not_for_nothing() {
        let learned = Stealing::Learned;
        assert_eq!(learned.look_again_ns(&busy(3), 0, STEAL_NS, 0), Some(16_000));
        assert_eq!(learned.look_again_ns(&busy(3), 15_000, STEAL_NS, 2), Some(64_000));
        assert_eq!(learned.look_again_ns(&busy(3), 0, STEAL_NS, u32::MAX), Some(WATCH_NS));
        assert_eq!(learned.look_again_ns(&busy(0), 0, STEAL_NS, 0), Some(WATCH_NS));
        assert_eq!(learned.look_again_ns(&Hint::default(), 0, STEAL_NS, 0), None);
        assert_eq!(Stealing::TimeLeft.look_again_ns(&busy(3), 0, STEAL_NS, 0), None);
    }

    #[test]
    fn half_of_the_difference_is_taken_in_time_not_in_number() {
        assert_eq!(Stealing::Learned.amount_ns(100_000, 20_000), 40_000);
        assert_eq!(Stealing::Learned.amount_ns(1_000, 20_000), 0);
        assert_eq!(Stealing::TimeLeft.amount_ns(100_000, 0), 0);
    }
}
