//! A budget of time for learning: timestamps, exploratory steals, trials.
//!
//! Time earns a fixed share, unspent time accumulates up to a bound, and only earned time is spent.
//! Leaves out the purpose of the spending. The resulting bound (spent ≤ start + share × earned) is
//! tested below.

use crate::{StealCandidate, Stealing};

/// An account of nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// In thousandths of a nanosecond, because short times must earn too.
    balance: u64,
    /// In the same unit.
    most: u64,
    permille: u32,
    spent_ns: u64,
}

impl Budget {
    /// A budget that earns `permille` thousandths of the reported time. The budget starts with
    /// `most_ns`, and never holds more.
    pub const fn new(permille: u32, most_ns: u64) -> Self {
        let most = most_ns.saturating_mul(1000);
        Self { balance: most, most, permille, spent_ns: 0 }
    }

    /// Reports that `ns` passed.
    pub fn earn(&mut self, ns: u64) {
        let earned = ns.saturating_mul(u64::from(self.permille));
        self.balance = self.balance.saturating_add(earned).min(self.most);
    }

    /// Spends `ns` if the balance suffices.
    #[must_use]
    pub fn spend(&mut self, ns: u64) -> bool {
        let price = ns.saturating_mul(1000);
        let paid = price <= self.balance;
        if paid {
            self.balance -= price;
            self.spent_ns = self.spent_ns.saturating_add(ns);
        }
        paid
    }

    /// Raises the maximum to at least `most_ns`, and adds the difference to the balance.
    pub fn widen(&mut self, most_ns: u64) {
        let most = most_ns.saturating_mul(1000).max(self.most);
        self.balance += most - self.most;
        self.most = most;
    }

    /// Adds `ns` to the balance, up to the maximum.
    pub(crate) fn add(&mut self, ns: u64) {
        self.balance = self.balance.saturating_add(ns.saturating_mul(1000)).min(self.most);
    }

    /// Returns an amount that was spent and not needed: at most the total spent.
    pub fn refund(&mut self, ns: u64) {
        let ns = ns.min(self.spent_ns);
        self.spent_ns -= ns;
        self.add(ns);
    }

    /// The available amount, in nanoseconds.
    pub fn balance_ns(&self) -> u64 {
        self.balance / 1000
    }

    /// The total spent, in nanoseconds.
    pub fn spent_ns(&self) -> u64 {
        self.spent_ns
    }
}

/// Decides which runs are timed. Timing costs at most one part in two hundred of the timed runs,
/// because all observation together may cost at most one part in a hundred.
///
/// A timestamp serves two events, because the end of an event is the beginning of the next event.
/// All long events are timed. If events are short, the whole batch of a color is timed, and single
/// events only as often as this budget allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampler(Budget);

/// The cost of timing an event: two timestamps and [`crate::cost::HandlerCost::observe`]. A
/// timestamp takes from 20 to 40 cycles on x86-64; `observe` was measured by the bench in
/// `cost/tests.rs`. Rounded up.
const TIMING_NS: u64 = 50;

impl Default for Sampler {
    fn default() -> Self {
        // Four timings at once, because otherwise every short event after a single long event would
        // be timed.
        Self(Budget::new(5, 4 * TIMING_NS))
    }
}

impl Sampler {
    /// Whether to time the next run, which is expected to take `estimate_ns`.
    pub fn due(&mut self, estimate_ns: u64) -> bool {
        self.0.earn(estimate_ns);
        self.0.spend(TIMING_NS)
    }
}

/// Decides which steals are made in order to learn, although the learned numbers forbid these
/// steals. An unknown penalty is assumed to be large. A mean that the first few steals made large
/// would also stay large if no further color ever moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exploration {
    budget: Budget,
    /// The waits until this time have been added to the budget.
    credited_ns: u64,
}

impl Default for Exploration {
    fn default() -> Self {
        // The limits on the loss by exploring: half a percent of the run time, and 100 us at once.
        Self { budget: Budget::new(5, 100_000), credited_ns: 0 }
    }
}

impl Exploration {
    /// Reports that a handler ran for `run_ns`.
    pub fn earn(&mut self, run_ns: u64) {
        self.budget.earn(run_ns);
    }

    /// The expected loss of the exploratory steals so far, in nanoseconds: penalties, and the cost
    /// beyond the initial estimate of a steal.
    pub fn spent_ns(&self) -> u64 {
        self.budget.spent_ns()
    }

    /// Whether to steal a color at `now_ns` that the policy would steal if the move had no penalty
    /// and cost `unseen_ns`, the initial estimate, in place of `steal_ns` if that is more.
    pub fn due(
        &mut self,
        stealing: Stealing,
        color: &StealCandidate,
        (steal_ns, unseen_ns): (u64, u64),
        now_ns: u64,
    ) -> bool {
        let cheap_ns = steal_ns.min(unseen_ns);
        let more_ns = steal_ns - cheap_ns;
        let free = StealCandidate { penalty_ns: 0, known_penalty_ns: 0, ..*color };
        match stealing {
            Stealing::Never | Stealing::Anything => false,
            Stealing::TimeLeft => stealing.pays(&free, cheap_ns) && self.budget.spend(more_ns),
            Stealing::Learned => {
                if !stealing.pays(&free, cheap_ns) {
                    return false;
                }
                let dear_ns = color.penalty_ns.saturating_add(more_ns);
                if color.knows_penalty() {
                    return self.budget.spend(dear_ns);
                }
                // The color would have waited anyway, so an unknown penalty can make it late by the
                // rest at most. The waits that fear of the penalty has cost pay for that rest, so
                // exploration costs no more than the waiting. A constant account could never pay
                // for a long handler, whose penalty would stay unknown for ever.
                let late_ns = dear_ns.saturating_sub(color.wait_ns);
                self.budget.widen(late_ns);
                self.credit(color.wait_ns, now_ns);
                self.budget.spend(late_ns)
            }
        }
    }

    /// Adds a wait to the budget. Waits at the same time count once, because a thief looks at many
    /// colors, and at the same color many times.
    fn credit(&mut self, wait_ns: u64, now_ns: u64) {
        let since_ns = now_ns.saturating_sub(self.credited_ns);
        self.budget.add(wait_ns.min(since_ns));
        self.credited_ns = self.credited_ns.max(now_ns);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn never_more_than_was_earned(steps in prop::collection::vec((0u64..10_000, 0u64..500), 0..200)) {
            let mut budget = Budget::new(20, 1_000);
            let mut earned = 0;
            for (earn, spend) in steps {
                budget.earn(earn);
                earned += earn;
                let _ = budget.spend(spend);
                prop_assert!(budget.spent_ns() <= 1_000 + earned * 20 / 1000);
                prop_assert!(budget.balance_ns() <= 1_000);
            }
        }
    }

    #[test]
    fn unused_budget_is_returned() {
        let mut budget = Budget::new(0, 100);
        assert!(budget.spend(80) && !budget.spend(80));
        budget.refund(1_000);
        assert_eq!((budget.spent_ns(), budget.balance_ns()), (0, 100));
        budget.widen(150);
        budget.widen(120);
        assert_eq!(budget.balance_ns(), 150);
    }

    #[test]
    fn exploration_steals_only_penalized_colors_within_budget() {
        let kept = StealCandidate {
            queued_ns: 30_000,
            wait_ns: 40_000,
            penalty_ns: 60_000,
            known_penalty_ns: 60_000,
            slower_ns: 0,
            since_move_ns: u64::MAX,
        };
        let mut exploration = Exploration::default();
        assert!(!exploration.due(Stealing::Anything, &kept, (1_000, 300), 0));
        let soon = StealCandidate { queued_ns: 800, wait_ns: 50, ..kept };
        assert!(!exploration.due(Stealing::Learned, &soon, (1_000, 300), 0));
        assert!(exploration.due(Stealing::Learned, &kept, (1_000, 300), 0));
        assert!(
            !exploration.due(Stealing::Learned, &kept, (1_000, 300), 0),
            "the rest does not pay for another"
        );
        exploration.earn(5_000_000);
        assert!(exploration.due(Stealing::Learned, &kept, (1_000, 300), 0));
        assert_eq!(exploration.spent_ns(), 2 * 60_700);
    }

    /// Regression: Mely's thieves measured the first steals on a disturbed machine, and from then
    /// on stole nothing short.
    #[test]
    fn first_steal_times_are_doubted() {
        let short = StealCandidate {
            queued_ns: 2_000,
            wait_ns: 0,
            penalty_ns: 0,
            known_penalty_ns: 0,
            slower_ns: 0,
            since_move_ns: u64::MAX,
        };
        let mut exploration = Exploration::default();
        assert!(!Stealing::TimeLeft.pays(&short, 20_000));
        assert!(exploration.due(Stealing::TimeLeft, &short, (20_000, 300), 0));
        assert!(!exploration.due(
            Stealing::TimeLeft,
            &StealCandidate { queued_ns: 200, ..short },
            (20_000, 300),
            0
        ));
    }

    /// Regression: an account of 100 us could never pay for a long handler, so its penalty stayed
    /// unknown for ever.
    #[test]
    fn unknown_penalty_of_a_long_handler_is_explored() {
        let long = StealCandidate {
            queued_ns: 300_000,
            wait_ns: 400_000,
            penalty_ns: 3_000_000,
            known_penalty_ns: 0,
            slower_ns: 0,
            since_move_ns: u64::MAX,
        };
        let mut exploration = Exploration::default();
        let mut due_at = |now_ns| exploration.due(Stealing::Learned, &long, (1_000, 300), now_ns);
        assert!(due_at(400_000));
        assert!(!due_at(800_000), "one such loss until waits have cost as much");
        assert!((3..11).any(|wait| due_at(wait * 400_000)));
        let waits = StealCandidate { wait_ns: 4_000_000, ..long };
        assert!(
            exploration.due(Stealing::Learned, &waits, (1_000, 300), 4_400_000),
            "a wait beyond the bound loses nothing"
        );
    }

    /// Regression: each look at a color added the whole wait of the color, so a thief that looked
    /// at many colors explored without a bound.
    #[test]
    fn waits_at_the_same_time_pay_once() {
        let long = StealCandidate {
            queued_ns: 300_000,
            wait_ns: 400_000,
            penalty_ns: 3_000_000,
            known_penalty_ns: 0,
            slower_ns: 0,
            since_move_ns: u64::MAX,
        };
        let late_ns = long.penalty_ns + 700 - long.wait_ns;
        let mut exploration = Exploration::default();
        let mut now_ns = 1_000_000;
        for _ in 0..1_000 {
            for _ in 0..10 {
                let _ = exploration.due(Stealing::Learned, &long, (1_000, 300), now_ns);
            }
            now_ns += 10_000;
        }
        let passed_ns = 1_000 * 10_000;
        assert!(exploration.spent_ns() <= 100_000 + late_ns + long.wait_ns + passed_ns);
        assert!(exploration.spent_ns() > late_ns, "waits pay for further steals");
    }

    #[test]
    fn timing_costs_half_a_percent_at_most() {
        for (cost_ns, at_most) in [(100, 10), (1_000, 100), (5_000, 500), (50_000, 1_000)] {
            let mut sampler = Sampler::default();
            let timed = (0..1_000).filter(|_| sampler.due(cost_ns)).count();
            assert!(timed <= at_most + 4, "{timed} of 1,000 events of {cost_ns} ns");
            assert!(timed >= at_most, "{timed} of 1,000 events of {cost_ns} ns");
        }
    }
}
