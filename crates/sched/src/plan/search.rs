//! The search for a better plan, among a bounded number of candidates.
//!
//! Candidates: the current plan, the named plans, the order of the flow graph cut into consecutive
//! runs. From the best of these the search goes downhill: one unit moved, two units exchanged, two
//! cores exchanged. Plans that an automorphism of the machine makes equal are examined once. A
//! handler with a single allowed core is not part of the row and not moved. No clock and no
//! randomness: the same model gives the same plans. Leaves out whether a plan is worth a trial
//! (`control/adaptive.rs`). Tested in `plan/tests.rs`.

use std::collections::BTreeSet;

use super::rules::PlanUnit;
use super::{Forecast, Objective, Plan, PlanModel, PlanRules};
use crate::{CoreIndex, HandlerIndex, Placement, Symmetry};

mod cuts;

pub use cuts::CUTS_MAX;

/// Default maximum number of plans in a search. Each plan takes 1 to 2 us for 16 handlers on 4
/// cores (printed by the tests in `plan/tests.rs`), so a search stays below 5 ms. The result is
/// within a percent of exhaustive search wherever that was small enough to compare.
pub const CANDIDATES_MAX: usize = 2_048;

/// Minimum of [`SearchLimits::for_size`], for any machine size.
const CANDIDATES_MIN: usize = 256;

/// Sum of handlers and cores up to which a search may examine [`CANDIDATES_MAX`] plans, because
/// estimates of larger plans take longer.
const SIZE_COMMON: usize = 64;

/// Number of best plans that the search expands, because a single plan may be caught in a local
/// minimum.
const BEAM: usize = 32;

/// Bounds of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchLimits {
    /// Plans that are examined, including duplicates. Default [`CANDIDATES_MAX`].
    pub candidates_max: usize,
    /// Plans that are returned: if a trial refutes the first, the next plan is ready. Default 4.
    pub keep: usize,
}

impl SearchLimits {
    /// Limits that keep a large search about as short as a small search.
    pub fn for_size(handlers: usize, cores: usize) -> Self {
        let times = (handlers + cores).div_ceil(SIZE_COMMON).max(1);
        Self { candidates_max: (CANDIDATES_MAX / times).max(CANDIDATES_MIN), ..Self::default() }
    }
}

impl Default for SearchLimits {
    fn default() -> Self {
        Self { candidates_max: CANDIDATES_MAX, keep: 4 }
    }
}

/// A plan and its forecast.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    /// The plan.
    pub plan: Plan,
    /// The forecast.
    pub forecast: Forecast,
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanSearchResult {
    /// The best plans, best first; among equals the first found, so the current plan wins a tie.
    pub best: Vec<Scored>,
    /// The forecast of the current plan, even if a rule forbids the plan.
    pub current: Forecast,
    /// Plans estimated.
    pub candidates: usize,
    /// Plans not estimated because a symmetric plan was.
    pub duplicates: usize,
}

/// Searches for plans better than `current` for the handlers that `current` places on single cores.
/// `order`: the handlers in the order of [`crate::flow::FlowGraph::order`].
pub fn search(
    model: &PlanModel<'_>,
    symmetry: &Symmetry,
    rules: &PlanRules,
    current: &Plan,
    order: &[HandlerIndex],
    objective: Objective,
    limits: SearchLimits,
) -> PlanSearchResult {
    let layout = model.layout();
    let mut search = PlanSearch {
        model,
        symmetry,
        rules,
        units: rules.free_units(current, order, layout),
        kinds: rules.kinds(layout),
        objective,
        limits,
        seen: BTreeSet::new(),
        expanded: BTreeSet::new(),
        found: PlanSearchResult::default(),
    };
    search.found.current = model.forecast(current);
    let begin = rules.fitted(current, layout);
    search.offer(begin.clone());
    search.offer_named(&begin);
    search.offer_cuts(&begin);
    while search.descend() {}
    search.found.best.truncate(limits.keep.max(1));
    search.found
}

struct PlanSearch<'a> {
    model: &'a PlanModel<'a>,
    symmetry: &'a Symmetry,
    rules: &'a PlanRules,
    /// The units that may move.
    units: Vec<PlanUnit>,
    /// By core, the number by which the rules distinguish cores.
    kinds: Vec<u32>,
    objective: Objective,
    limits: SearchLimits,
    seen: BTreeSet<Vec<u32>>,
    /// Canonical forms of the plans whose neighbours were offered.
    expanded: BTreeSet<Vec<u32>>,
    found: PlanSearchResult,
}

impl PlanSearch<'_> {
    fn exhausted(&self) -> bool {
        self.found.candidates + self.found.duplicates >= self.limits.candidates_max
    }

    /// Estimates a plan unless a rule forbids the plan, a symmetric plan was estimated, or the
    /// bound is reached.
    fn offer(&mut self, plan: Plan) {
        if self.exhausted() || !self.rules.permits(&plan) {
            return;
        }
        if !self.seen.insert(self.canonical(&plan)) {
            self.found.duplicates += 1;
            return;
        }
        self.found.candidates += 1;
        let forecast = self.model.forecast(&plan);
        let cost = forecast.cost(self.objective);
        let best = &mut self.found.best;
        let at = best.partition_point(|scored| scored.forecast.cost(self.objective) <= cost);
        let most = self.limits.keep.max(BEAM);
        if at < most {
            best.insert(at, Scored { plan, forecast });
            best.truncate(most);
        }
    }

    /// The named plans: a unit goes to the core of its first handler in the order of the flow.
    fn offer_named(&mut self, current: &Plan) {
        for named in Plan::all_named(self.units.len(), self.model.layout()) {
            let cores = named.iter().filter_map(|(unit, _)| named.core_of(unit));
            let plan = self.rules.placed(current, &self.units, cores, self.model.layout());
            self.offer(plan);
        }
    }

    fn offer_cuts(&mut self, current: &Plan) {
        let loads: Vec<_> = self.units.iter().map(|unit| self.load(unit)).collect();
        for cut in cuts::cuts(&loads, self.symmetry.cores().len()) {
            let cores = cut.into_iter().map(|run| self.symmetry.cores()[run]);
            let plan = self.rules.placed(current, &self.units, cores, self.model.layout());
            self.offer(plan);
        }
    }

    fn canonical(&self, plan: &Plan) -> Vec<u32> {
        canonical(plan, self.symmetry, &self.kinds)
    }

    fn load(&self, unit: &PlanUnit) -> f64 {
        let load = |handler: &HandlerIndex| {
            let handler = self.model.handlers().get(handler.0 as usize).copied().unwrap_or_default();
            handler.events_per_s * handler.cost_ns
        };
        unit.handlers.iter().map(load).sum()
    }

    /// Offers all neighbours of the best plan that was not expanded yet. Returns whether there was
    /// such a plan and the bound leaves room.
    fn descend(&mut self) -> bool {
        let fresh = |scored: &&Scored| !self.expanded.contains(&self.canonical(&scored.plan));
        let Some(base) = self.found.best.iter().find(fresh).cloned() else { return false };
        self.expanded.insert(self.canonical(&base.plan));
        self.offer_moves(&base);
        self.offer_swaps(&base);
        self.offer_exchanges(&base);
        !self.exhausted()
    }

    /// One unit moves: units of the busiest cores first, to the idlest cores first.
    fn offer_moves(&mut self, base: &Scored) {
        let load = |core: CoreIndex| base.forecast.loads[core.0 as usize];
        let mut cores: Vec<_> = self.model.layout().indices().collect();
        cores.sort_by(|&a, &b| load(a).total_cmp(&load(b)));
        let mut units: Vec<_> = (0..self.units.len()).collect();
        let home = |unit: &usize| load(self.core_of(&base.plan, *unit));
        units.sort_by(|a, b| home(b).total_cmp(&home(a)));
        for unit in units {
            for &to in &cores {
                if self.exhausted() {
                    return;
                }
                self.offer(self.moved(&base.plan, &[(unit, to)]));
            }
        }
    }

    fn offer_swaps(&mut self, base: &Scored) {
        for a in 0..self.units.len() {
            for b in a + 1..self.units.len() {
                let (core_a, core_b) = (self.core_of(&base.plan, a), self.core_of(&base.plan, b));
                if self.exhausted() {
                    return;
                }
                if core_a != core_b {
                    self.offer(self.moved(&base.plan, &[(a, core_b), (b, core_a)]));
                }
            }
        }
    }

    /// Two cores exchange all units.
    fn offer_exchanges(&mut self, base: &Scored) {
        for a in self.model.layout().indices() {
            for b in self.model.layout().indices().skip(a.0 as usize + 1) {
                if self.exhausted() {
                    return;
                }
                let goes = |unit: usize| match self.core_of(&base.plan, unit) {
                    core if core == a => Some((unit, b)),
                    core if core == b => Some((unit, a)),
                    _ => None,
                };
                let steps: Vec<_> = (0..self.units.len()).filter_map(goes).collect();
                self.offer(self.moved(&base.plan, &steps));
            }
        }
    }

    /// The core of a unit: the core of its first handler, because the current plan may still split
    /// the unit.
    fn core_of(&self, plan: &Plan, unit: usize) -> CoreIndex {
        plan.core_of(self.units[unit].handlers[0]).expect("units are placed on cores")
    }

    fn moved(&self, plan: &Plan, steps: &[(usize, CoreIndex)]) -> Plan {
        let mut plan = plan.clone();
        for &(unit, to) in steps {
            for &handler in &self.units[unit].handlers {
                plan.put(handler, Placement::Core(to));
            }
        }
        plan
    }
}

/// A form that symmetric plans share. Cores of different kinds are not symmetric.
fn canonical(plan: &Plan, symmetry: &Symmetry, kinds: &[u32]) -> Vec<u32> {
    let mut labels = vec![u32::MAX; symmetry.cores().len()];
    let mut label = |core: CoreIndex, handler: HandlerIndex| {
        let least = &mut labels[core.0 as usize];
        *least = handler.0.min(*least);
    };
    for (handler, placement) in plan.iter() {
        match placement {
            Placement::Any => {}
            Placement::Core(core) => label(*core, handler),
            Placement::Cores(cores) => cores.iter().for_each(|core| label(core, handler)),
        }
    }
    let becomes = symmetry.relabel(&labels);
    let mut form = Vec::with_capacity(2 * plan.len());
    for (_, placement) in plan.iter() {
        let begin = form.len();
        match placement {
            Placement::Any => {}
            Placement::Core(core) => form.push(becomes[core.0 as usize].0),
            Placement::Cores(cores) => form.extend(cores.iter().map(|core| becomes[core.0 as usize].0)),
        }
        form[begin..].sort_unstable();
        form.push(u32::MAX);
    }
    let begin = form.len();
    form.resize(begin + kinds.len(), 0);
    for (core, &kind) in becomes.iter().zip(kinds) {
        form[begin + core.0 as usize] = kind;
    }
    form
}
