//! The default controller: predicts, tries plans that should pay, keeps plans that were proven, and
//! never loses more than the budget.
//!
//! After two short windows of learning, a search over the measured flow graph proposes a plan
//! (`propose.rs`). If the promise is large enough, the current plan and the challenger alternate
//! (`contest.rs`) and are compared in pairs (`paired.rs`); the winner stays. Time lost to
//! challengers comes from a budget that earns two percent of the time and is never overdrawn: the
//! bound on regret. The controller watches a steady load (`watch.rs`) and searches again at growing
//! intervals. When the load changes, learning begins again. A steady load is settled in well under
//! 200 ms. Tested in `control/tests.rs` and `control/adaptive/tests.rs`.

use super::{Controller, DecisionLog, Event, Observation, Why};
use crate::plan::{Move, Plan, Rules};
use crate::{Budget, CoreIndex, HandlerIndex, Layout, Symmetry};
use contest::{Contest, Next};
use load::Load;
use propose::Wins;
use watch::{Finding, Watch};

mod contest;
mod load;
mod paired;
mod propose;
#[cfg(test)]
mod tests;
mod watch;

/// A window of learning, in nanoseconds. The first window after a change is discarded, the second
/// decides: 20 of 200 ms.
const LEARN_NS: u64 = 10_000_000;

/// Events that a search needs, because with fewer events the rates are off by more than a tenth.
const LEARN_EVENTS: u64 = 100;

/// First and last interval between searches under a settled load, in nanoseconds; doubled in
/// between, because costs change slowly.
const RETRY_NS: (u64, u64) = (1_000_000_000, 64_000_000_000);

/// The budget of regret: two percent of the time, and 20 ms at once, or two turns of a challenger
/// if two turns take longer.
const REGRET: (u32, u64) = (20, 20_000_000);

/// Turns of a challenger that the budget must be able to hold. Without this minimum no contest
/// could start if events are so slow that two turns take longer than 20 ms.
const TURNS_AT_ONCE: u64 = 2;

/// The controller.
#[derive(Debug)]
pub struct Adaptive {
    layout: Layout,
    symmetry: Symmetry,
    rules: Rules,
    phase: Phase,
    load: Load,
    regret: Budget,
    /// Plans that lost a contest under this load.
    refuted: Vec<Plan>,
    wins: Wins,
    last_round_ns: Option<u64>,
    /// Time to rest if there is nothing to do, in nanoseconds.
    backoff_ns: u64,
    log: DecisionLog,
}

#[derive(Debug)]
enum Phase {
    /// The number of windows seen.
    Learning(u32),
    Contesting(Box<Contest>),
    Watching(Watch),
}

impl Adaptive {
    /// A controller without knowledge.
    pub fn new(layout: Layout, rules: Rules) -> Self {
        Self {
            symmetry: Symmetry::of(&layout),
            layout,
            rules,
            phase: Phase::Learning(0),
            load: Load::default(),
            regret: Budget::new(REGRET.0, REGRET.1),
            refuted: Vec::new(),
            wins: Wins::default(),
            last_round_ns: None,
            backoff_ns: RETRY_NS.0,
            log: DecisionLog::default(),
        }
    }

    /// Whether the current plan has been kept and is only watched.
    pub fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Watching(_))
    }

    fn learn(&mut self, windows: u32, now_ns: u64, seen: &Observation) -> Vec<Move> {
        if windows <= 1 {
            // A part of the first window belongs to the time before.
            self.load = Load::default();
        }
        self.load.absorb(seen);
        self.phase = Phase::Learning(windows + 1);
        match () {
            () if windows == 0 || self.load.events() < LEARN_EVENTS && seen.events() > 0 => Vec::new(),
            () if self.load.events() < LEARN_EVENTS => self.rest(now_ns, seen),
            () => self.decide(now_ns, seen),
        }
    }

    /// Searches, and begins a contest or rests.
    fn decide(&mut self, now_ns: u64, seen: &Observation) -> Vec<Move> {
        let proposal = self.propose(now_ns, seen);
        let (candidates, predicted) = (proposal.candidates, proposal.promise);
        let Some(contest) = proposal.contest else {
            self.log.push(now_ns, Event::Nothing { candidates, predicted }, &[]);
            return self.rest(now_ns, seen);
        };
        self.regret.widen(TURNS_AT_ONCE * contest.price_ns());
        if self.regret.balance_ns() < contest.price_ns() {
            self.log.push(now_ns, Event::Abandoned(Why::RegretSpent), &[]);
            return self.rest(now_ns, seen);
        }
        self.log.push(now_ns, Event::Challenged { candidates, predicted }, &[]);
        self.phase = Phase::Contesting(Box::new(contest));
        Vec::new()
    }

    fn contest(&mut self, mut contest: Box<Contest>, now_ns: u64, seen: &Observation) -> Vec<Move> {
        let next = match self.rules.permits(&contest.challenger) {
            true => contest.step(seen, &mut self.regret),
            // A handler of the contest must now stay in place.
            false => Next::Off(Why::PlacementChanged),
        };
        let predicted = contest.predicted;
        let pairs = contest.pairs();
        let (event, target) = match next {
            Next::On => {
                let moves = seen.placed.moves_to(contest.standing());
                self.phase = Phase::Contesting(contest);
                return moves;
            }
            Next::Won(measured) => (Event::Committed { predicted, measured, pairs }, contest.challenger),
            Next::Lost(measured) => {
                self.refuted.push(contest.challenger);
                (Event::Refuted { predicted, measured, pairs }, contest.incumbent)
            }
            Next::Off(Why::PlacementChanged) => {
                (Event::Abandoned(Why::PlacementChanged), seen.placed.clone())
            }
            Next::Off(why) => (Event::Abandoned(why), contest.incumbent),
        };
        if matches!(next, Next::Won(_)) {
            self.wins.add(now_ns);
            self.backoff_ns = RETRY_NS.0;
        }
        let moves = seen.placed.moves_to(&target);
        self.log.push(now_ns, event, &moves);
        self.phase = Phase::Learning(0);
        moves
    }

    fn rest(&mut self, now_ns: u64, seen: &Observation) -> Vec<Move> {
        let retry_at_ns = now_ns.saturating_add(self.backoff_ns);
        self.phase = Phase::Watching(Watch::new(&self.load, seen, retry_at_ns));
        self.backoff_ns = (2 * self.backoff_ns).min(RETRY_NS.1);
        Vec::new()
    }

    fn watch(&mut self, mut watch: Watch, now_ns: u64, seen: &Observation) -> Vec<Move> {
        self.load.absorb(seen);
        match watch.look(&self.load, now_ns, seen) {
            Finding::Steady => self.phase = Phase::Watching(watch),
            Finding::Due => {
                self.refuted.clear();
                return self.decide(now_ns, seen);
            }
            Finding::Shifted => {
                self.log.push(now_ns, Event::Shifted, &[]);
                self.refuted.clear();
                self.backoff_ns = RETRY_NS.0;
                self.phase = Phase::Learning(0);
            }
        }
        Vec::new()
    }
}

impl Controller for Adaptive {
    fn round(&mut self, now_ns: u64, seen: &Observation) -> Vec<Move> {
        let last_ns = self.last_round_ns.replace(now_ns).unwrap_or(now_ns);
        self.regret.earn(now_ns.saturating_sub(last_ns));
        match std::mem::replace(&mut self.phase, Phase::Learning(0)) {
            Phase::Learning(windows) => self.learn(windows, now_ns, seen),
            Phase::Contesting(contest) => self.contest(contest, now_ns, seen),
            Phase::Watching(watch) => self.watch(watch, now_ns, seen),
        }
    }

    fn next_round_ns(&self) -> Option<u64> {
        Some(match &self.phase {
            Phase::Learning(_) => LEARN_NS,
            Phase::Contesting(contest) => contest.next_round_ns(),
            Phase::Watching(watch) => watch.next_round_ns(),
        })
    }

    fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    fn begin(&self, handler: HandlerIndex) -> Option<CoreIndex> {
        let cores = self.symmetry.cores();
        Some(self.rules.nearest(handler, cores[handler.0 as usize % cores.len()], &self.layout))
    }

    fn decisions(&self) -> &DecisionLog {
        &self.log
    }

    fn regret_ns(&self) -> Option<u64> {
        Some(self.regret.spent_ns())
    }
}
