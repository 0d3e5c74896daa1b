//! The default controller: predicts, tries plans that should pay, keeps plans that were proven, and
//! never loses more than the budget.
//!
//! After two short windows of learning, a search over the measured flow graph proposes a plan
//! (`propose.rs`). If the promise is large enough, the current plan and the candidate alternate
//! (`plan_trial.rs`) and are compared in pairs (`paired.rs`); the winner stays. Time lost to
//! candidates comes from a budget that earns two percent of the time and is never overdrawn: the
//! bound on regret. The controller watches a steady load (`watch.rs`) and searches again at growing
//! intervals. When the load changes, learning begins again. A steady load is settled in well under
//! 200 ms. Tested in `control/tests.rs` and `control/adaptive/tests.rs`.

use super::{ControlEvent, Controller, DecisionLog, Observation, Why};
use crate::plan::{Move, Plan, PlanRules};
use crate::{BackOff, BackOffBounds, Budget, CoreIndex, HandlerIndex, Layout, Symmetry};
use load::SmoothedLoad;
use plan_trial::{PlanTrial, TrialNext};
use propose::Wins;
use std::cmp::Reverse;
use std::time::Duration;
use watch::{LoadWatch, WatchFinding};

mod load;
mod paired;
mod plan_trial;
mod propose;
#[cfg(test)]
mod tests;
mod watch;

/// A window of learning, in nanoseconds. The first window after a change is discarded, the second
/// decides: 20 of 200 ms.
const LEARN_NS: u64 = 10_000_000;

/// Events that a search needs, because with fewer events the rates are off by more than a tenth.
const LEARN_EVENTS: u64 = 100;

/// First and last interval between searches under a settled load, doubled in between, because
/// costs change slowly.
const RETRY_PAUSES: BackOffBounds = BackOffBounds::doubling(Duration::from_secs(1), Duration::from_secs(64));

/// The budget of regret: two percent of the time, and 20 ms at once, or two turns of a candidate
/// if two turns take longer.
const REGRET: (u32, u64) = (20, 20_000_000);

/// Turns of a candidate that the budget must be able to hold. Without this minimum no trial
/// could start if events are so slow that two turns take longer than 20 ms.
const TURNS_AT_ONCE: u64 = 2;

/// The controller.
#[derive(Debug)]
pub struct Adaptive {
    layout: Layout,
    symmetry: Symmetry,
    rules: PlanRules,
    phase: AdaptivePhase,
    load: SmoothedLoad,
    regret: Budget,
    /// Plans that lost a trial under this load.
    refuted: Vec<Plan>,
    wins: Wins,
    last_round_ns: Option<u64>,
    /// Time to rest if there is nothing to do.
    rests: BackOff,
    log: DecisionLog,
}

#[derive(Debug)]
enum AdaptivePhase {
    /// The number of windows seen.
    Learning(u32),
    InTrial(Box<PlanTrial>),
    Watching(LoadWatch),
}

impl Adaptive {
    /// A controller without knowledge.
    pub fn new(layout: Layout, rules: PlanRules) -> Self {
        Self {
            symmetry: Symmetry::of(&layout),
            layout,
            rules,
            phase: AdaptivePhase::Learning(0),
            load: SmoothedLoad::default(),
            regret: Budget::new(REGRET.0, REGRET.1),
            refuted: Vec::new(),
            wins: Wins::default(),
            last_round_ns: None,
            rests: BackOff::new(&RETRY_PAUSES),
            log: DecisionLog::default(),
        }
    }

    /// Whether the current plan has been kept and is only watched.
    pub fn is_settled(&self) -> bool {
        matches!(self.phase, AdaptivePhase::Watching(_))
    }

    fn learn(&mut self, windows: u32, now_ns: u64, seen: &Observation) -> Vec<Move> {
        if windows <= 1 {
            // A part of the first window belongs to the time before.
            self.load = SmoothedLoad::default();
        }
        self.load.absorb(seen);
        self.phase = AdaptivePhase::Learning(windows + 1);
        match () {
            () if windows == 0 || self.load.events() < LEARN_EVENTS && seen.events() > 0 => Vec::new(),
            () if self.load.events() < LEARN_EVENTS => self.rest(now_ns, seen),
            () => self.decide(now_ns, seen),
        }
    }

    /// Searches, and begins a trial or rests.
    fn decide(&mut self, now_ns: u64, seen: &Observation) -> Vec<Move> {
        let proposal = self.propose(now_ns, seen);
        let (candidates, predicted) = (proposal.candidates, proposal.promise);
        let Some(trial) = proposal.trial else {
            self.log.push(now_ns, ControlEvent::Nothing { candidates, predicted }, &[]);
            return self.rest(now_ns, seen);
        };
        self.regret.widen(TURNS_AT_ONCE * trial.price_ns());
        if self.regret.balance_ns() < trial.price_ns() {
            self.log.push(now_ns, ControlEvent::Abandoned(Why::RegretSpent), &[]);
            return self.rest(now_ns, seen);
        }
        self.log.push(now_ns, ControlEvent::Challenged { candidates, predicted }, &[]);
        self.phase = AdaptivePhase::InTrial(Box::new(trial));
        Vec::new()
    }

    fn trial(&mut self, mut trial: Box<PlanTrial>, now_ns: u64, seen: &Observation) -> Vec<Move> {
        let next = match self.rules.permits(&trial.candidate) {
            true => trial.step(seen, &mut self.regret),
            // A handler of the trial must now stay in place.
            false => TrialNext::Off(Why::PlacementChanged),
        };
        let predicted = trial.predicted;
        let pairs = trial.pairs();
        let (event, target) = match next {
            TrialNext::On => {
                let moves = seen.placed.moves_to(trial.standing());
                self.phase = AdaptivePhase::InTrial(trial);
                return moves;
            }
            TrialNext::Won(measured) => {
                (ControlEvent::Committed { predicted, measured, pairs }, trial.candidate)
            }
            TrialNext::Lost(measured) => {
                self.refuted.push(trial.candidate);
                (ControlEvent::Refuted { predicted, measured, pairs }, trial.incumbent)
            }
            TrialNext::Off(Why::PlacementChanged) => {
                (ControlEvent::Abandoned(Why::PlacementChanged), seen.placed.clone())
            }
            TrialNext::Off(why) => (ControlEvent::Abandoned(why), trial.incumbent),
        };
        if matches!(next, TrialNext::Won(_)) {
            self.wins.add(now_ns);
            self.rests.reset();
        }
        let moves = seen.placed.moves_to(&target);
        self.log.push(now_ns, event, &moves);
        self.phase = AdaptivePhase::Learning(0);
        moves
    }

    fn rest(&mut self, now_ns: u64, seen: &Observation) -> Vec<Move> {
        let retry_at_ns =
            now_ns.saturating_add(u64::try_from(self.rests.advance().as_nanos()).unwrap_or(u64::MAX));
        self.phase = AdaptivePhase::Watching(LoadWatch::new(&self.load, seen, retry_at_ns));
        Vec::new()
    }

    fn watch(&mut self, mut watch: LoadWatch, now_ns: u64, seen: &Observation) -> Vec<Move> {
        self.load.absorb(seen);
        match watch.look(&self.load, now_ns, seen) {
            WatchFinding::Steady => self.phase = AdaptivePhase::Watching(watch),
            WatchFinding::Due => {
                self.refuted.clear();
                return self.decide(now_ns, seen);
            }
            WatchFinding::Shifted => {
                self.log.push(now_ns, ControlEvent::Shifted, &[]);
                self.refuted.clear();
                self.rests.reset();
                self.phase = AdaptivePhase::Learning(0);
            }
        }
        Vec::new()
    }
}

impl Controller for Adaptive {
    fn round(&mut self, now_ns: u64, seen: &Observation) -> Vec<Move> {
        let last_ns = self.last_round_ns.replace(now_ns).unwrap_or(now_ns);
        self.regret.earn(now_ns.saturating_sub(last_ns));
        match std::mem::replace(&mut self.phase, AdaptivePhase::Learning(0)) {
            AdaptivePhase::Learning(windows) => self.learn(windows, now_ns, seen),
            AdaptivePhase::InTrial(trial) => self.trial(trial, now_ns, seen),
            AdaptivePhase::Watching(watch) => self.watch(watch, now_ns, seen),
        }
    }

    fn next_round_ns(&self) -> Option<u64> {
        Some(match &self.phase {
            AdaptivePhase::Learning(_) => LEARN_NS,
            AdaptivePhase::InTrial(trial) => trial.next_round_ns(),
            AdaptivePhase::Watching(watch) => watch.next_round_ns(),
        })
    }

    fn set_rules(&mut self, rules: PlanRules) {
        self.rules = rules;
    }

    fn begin(&self, handler: HandlerIndex) -> Option<CoreIndex> {
        let mut cores = self.symmetry.cores().to_vec();
        // A handler with a color of its own is serial, so a slow core would bound the program.
        cores.sort_by_key(|&core| Reverse(self.layout.capacity(core)));
        Some(self.rules.nearest(handler, cores[handler.0 as usize % cores.len()], &self.layout))
    }

    fn decisions(&self) -> &DecisionLog {
        &self.log
    }

    fn regret_ns(&self) -> Option<u64> {
        Some(self.regret.spent_ns())
    }
}
