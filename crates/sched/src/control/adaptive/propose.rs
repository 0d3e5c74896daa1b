//! The choice of a candidate: the best plan that a search finds, if the promise pays for a
//! trial.
//!
//! Contains the search, the least promise and the bar that a candidate must pass. Leaves out the
//! trial. Tested in `control/tests.rs`.

use super::super::Observation;
use super::Adaptive;
use super::plan_trial::PlanTrial;
use crate::plan::{
    Forecast, Objective, PenaltyTrust, Plan, PlanModel, PlanSearchResult, Scored, SearchLimits, search,
};

/// The least promised gain for throughput with known penalties, because below three percent a
/// trial seldom proves anything.
const PROMISE_MIN: f64 = 0.03;

/// The least promised gain for delay, whose measurements are noisier, or with unknown penalties.
/// In 20 loads of `control/tests/world.rs`, half as much holds up to five times the trials, so
/// placement takes 0.4 s instead of 0.1. Twice as much loses 1.7 % if handlers have unequal costs.
const DOUBTFUL_PROMISE_MIN: f64 = 0.10;

/// The least gain that a candidate must show. Each plan that won in the last [`CALM_NS`] doubles
/// the bar, up to eight times, so that plans do not alternate.
const BAR: f64 = 0.02;

/// Time without a new plan after which the bar is low again, in nanoseconds. Guess.
const CALM_NS: u64 = 10_000_000_000;

/// The result of a search.
#[derive(Debug)]
pub(super) struct Proposal {
    /// The trial to hold, if a trial pays.
    pub(super) trial: Option<PlanTrial>,
    /// The candidate's promise, or the best promise if no trial pays.
    pub(super) promise: f64,
    /// Number of plans examined.
    pub(super) candidates: usize,
}

/// Plans that won recently.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wins {
    lately: u32,
    last_ns: u64,
}

impl Wins {
    /// Counts a win.
    pub(super) fn add(&mut self, now_ns: u64) {
        let lately = if self.calm(now_ns) { 0 } else { self.lately };
        *self = Self { lately: lately + 1, last_ns: now_ns };
    }

    /// The gain that the next candidate must show.
    fn bar(&self, now_ns: u64) -> f64 {
        if self.calm(now_ns) { BAR } else { BAR * f64::from(1 << self.lately.min(3)) }
    }

    fn calm(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.last_ns) > CALM_NS
    }
}

impl Adaptive {
    /// Searches for a candidate of the current plan: first with known penalties. If that promises
    /// nothing, the search assumes that unknown penalties are small.
    pub(super) fn propose(&self, now_ns: u64, seen: &Observation) -> Proposal {
        let cautious = self.propose_by(now_ns, seen, PenaltyTrust::Cautious);
        if cautious.trial.is_some() {
            return cautious;
        }
        let hopeful = self.propose_by(now_ns, seen, PenaltyTrust::Hopeful);
        let candidates = cautious.candidates + hopeful.candidates;
        if hopeful.trial.is_some() {
            Proposal { candidates, ..hopeful }
        } else {
            Proposal { candidates, ..cautious }
        }
    }

    fn propose_by(&self, now_ns: u64, seen: &Observation, trust: PenaltyTrust) -> Proposal {
        let objective = self.load.objective();
        let model = self.load.model(&self.layout, &seen.costs, trust);
        let found = self.search(&model, seen, objective);
        let bar = self.wins.bar(now_ns);
        let least = match (objective, trust) {
            (Objective::Throughput, PenaltyTrust::Cautious) => PROMISE_MIN,
            (Objective::Delay, _) | (_, PenaltyTrust::Hopeful) => DOUBTFUL_PROMISE_MIN,
        };
        let now = self.now(&model, &found, objective);
        let (candidate, promise) = self.best_of(&found, &now, objective, bar.max(least));
        let trial = |candidate| {
            let plans = [seen.placed.clone(), candidate];
            PlanTrial::new(plans, promise, objective, self.load.event_ns(), bar, self.load.rate())
        };
        Proposal { trial: candidate.map(trial), promise, candidates: found.candidates + found.duplicates }
    }

    fn search(&self, model: &PlanModel<'_>, seen: &Observation, objective: Objective) -> PlanSearchResult {
        let handlers = seen.placed.len();
        let order = self.load.graph().order(handlers);
        let limits = SearchLimits::for_size(handlers, self.layout.cores());
        search(model, &self.symmetry, &self.rules, &seen.placed, &order, objective, limits)
    }

    /// The forecast of the current plan, or the observed state of the cores if that is better,
    /// because stealing balances a bad plan.
    fn now(&self, model: &PlanModel<'_>, found: &PlanSearchResult, objective: Objective) -> Forecast {
        let observed = model.observed(self.load.busy_s());
        let is_better = observed.cost(objective) < found.current.cost(objective);
        if is_better { observed } else { found.current.clone() }
    }

    /// The best plan that was not refuted and whose promise pays for a trial, with the promise;
    /// otherwise the best promise of all plans. The cost of the moves is left to the regret budget.
    fn best_of(
        &self,
        found: &PlanSearchResult,
        now: &Forecast,
        objective: Objective,
        least: f64,
    ) -> (Option<Plan>, f64) {
        let gain = |scored: &Scored| scored.forecast.gain_over(now, objective);
        let pays = |scored: &&Scored| gain(scored) >= least && !self.refuted.contains(&scored.plan);
        let best = found.best.iter().find(pays);
        let promise = best.or(found.best.first()).map_or(0.0, gain);
        (best.map(|scored| scored.plan.clone()), promise)
    }
}
