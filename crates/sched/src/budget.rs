//! A share of the time that goes by, to be spent on learning: timestamps, exploratory steals, trials.
//!
//! Owns the account: time earns a fixed share, what was not spent stays up to a bound, and nothing is spent that has not been
//! earned. Leaves out what it is spent on. The bound that follows (spent ≤ start + share × earned) is tested below.

use crate::{Candidate, Stealing};

/// An account of nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Thousandths of a nanosecond, so that short times earn too.
    balance: u64,
    /// The same unit.
    most: u64,
    permille: u32,
    spent_ns: u64,
}

impl Budget {
    /// An account that earns `permille` thousandths of the time reported to it. It starts with `most_ns`, and never holds
    /// more.
    pub const fn new(permille: u32, most_ns: u64) -> Self {
        let most = most_ns.saturating_mul(1000);
        Self { balance: most, most, permille, spent_ns: 0 }
    }

    /// `ns` went by.
    pub fn earn(&mut self, ns: u64) {
        let earned = ns.saturating_mul(u64::from(self.permille));
        self.balance = self.balance.saturating_add(earned).min(self.most);
    }

    /// Takes `ns` out if they are there.
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

    /// Lets the account hold at least `most_ns`, and pays in what it can hold more now.
    pub fn widen(&mut self, most_ns: u64) {
        let most = most_ns.saturating_mul(1000).max(self.most);
        self.balance += most - self.most;
        self.most = most;
    }

    /// Puts back what was taken out and turned out not to be needed: at most what was spent.
    pub fn refund(&mut self, ns: u64) {
        let ns = ns.min(self.spent_ns);
        self.spent_ns -= ns;
        self.balance = self.balance.saturating_add(ns.saturating_mul(1000)).min(self.most);
    }

    /// What may be spent now, in nanoseconds.
    pub fn balance_ns(&self) -> u64 {
        self.balance / 1000
    }

    /// What has been spent since the beginning, in nanoseconds.
    pub fn spent_ns(&self) -> u64 {
        self.spent_ns
    }
}

/// Decides which runs are timed, so that timing costs at most one part in two hundred of what it times: one in a hundred is what all
/// that is observed may cost.
///
/// One timestamp serves two events: the end of one is the beginning of the next. Where events are long, all are timed; where
/// they are short, the whole batch of a color is, and single events only as often as this says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampler(Budget);

/// What timing one event costs: two timestamps and [`crate::cost::HandlerCost::observe`]. From 20 to 40 cycles for a
/// timestamp on x86-64, and the bench of `observe` in `cost/tests.rs`; rounded up.
const TIMING_NS: u64 = 50;

impl Default for Sampler {
    fn default() -> Self {
        // Four timings at once: after one long event not every short one that follows is timed.
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

/// Decides which steals are made to learn, although what was learned forbids them: a penalty that is not known is taken to be
/// large, and a mean of steals that the first few made large would stay so, if nothing was ever moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exploration(Budget);

impl Default for Exploration {
    fn default() -> Self {
        // Half a percent of the run time, and 100 us to begin with. Guess.
        Self(Budget::new(5, 100_000))
    }
}

impl Exploration {
    /// A handler ran for so long.
    pub fn earn(&mut self, run_ns: u64) {
        self.0.earn(run_ns);
    }

    /// What the steals that were due were expected to lose, in nanoseconds: penalties, and what they take longer than unseen ones.
    pub fn spent_ns(&self) -> u64 {
        self.0.spent_ns()
    }

    /// Whether to take a color that goes if its move has no penalty and costs what a steal was taken to cost before any was
    /// seen, `unseen_ns`, if that is less than `steal_ns`.
    pub fn due(&mut self, stealing: Stealing, color: &Candidate, steal_ns: u64, unseen_ns: u64) -> bool {
        let cheap_ns = steal_ns.min(unseen_ns);
        let more_ns = steal_ns - cheap_ns;
        let free = Candidate { penalty_ns: 0, ..*color };
        match stealing {
            Stealing::Never | Stealing::Anything => false,
            Stealing::TimeLeft => stealing.pays(&free, cheap_ns) && self.0.spend(more_ns),
            Stealing::Learned => {
                stealing.pays(&free, cheap_ns) && self.0.spend(color.penalty_ns.saturating_add(more_ns))
            }
        }
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
    fn what_is_not_needed_comes_back() {
        let mut budget = Budget::new(0, 100);
        assert!(budget.spend(80) && !budget.spend(80));
        budget.refund(1_000);
        assert_eq!((budget.spent_ns(), budget.balance_ns()), (0, 100));
        budget.widen(150);
        budget.widen(120);
        assert_eq!(budget.balance_ns(), 150);
    }

    #[test]
    fn only_what_its_penalty_keeps_is_explored_and_only_for_so_long() {
        let kept =
            Candidate { worth_ns: 30_000, wait_ns: 40_000, penalty_ns: 60_000, since_move_ns: u64::MAX };
        let mut exploration = Exploration::default();
        assert!(!exploration.due(Stealing::Anything, &kept, 1_000, 300));
        assert!(!exploration.due(Stealing::Learned, &Candidate { wait_ns: 200, ..kept }, 1_000, 300));
        assert!(exploration.due(Stealing::Learned, &kept, 1_000, 300));
        assert!(!exploration.due(Stealing::Learned, &kept, 1_000, 300), "the rest does not pay for another");
        exploration.earn(5_000_000);
        assert!(exploration.due(Stealing::Learned, &kept, 1_000, 300));
        assert_eq!(exploration.spent_ns(), 2 * 60_700);
    }

    /// Mely's thieves met a disturbed machine at their first steals, and took nothing short from then on.
    #[test]
    fn what_the_first_steals_took_is_doubted() {
        let short = Candidate { worth_ns: 2_000, wait_ns: 0, penalty_ns: 0, since_move_ns: u64::MAX };
        let mut exploration = Exploration::default();
        assert!(!Stealing::TimeLeft.pays(&short, 20_000));
        assert!(exploration.due(Stealing::TimeLeft, &short, 20_000, 300));
        assert!(!exploration.due(Stealing::TimeLeft, &Candidate { worth_ns: 200, ..short }, 20_000, 300));
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
