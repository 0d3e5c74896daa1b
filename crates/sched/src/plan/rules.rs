//! Rules for plans: bound handlers do not move, and handlers that exclude each other stay together.
//!
//! Contains the rules, the resulting *units* (sets of handlers that stand on a core together), and
//! the correction of plans that break rules. Leaves out the search under these rules
//! (`plan/search.rs`). Tested in `plan/tests.rs`.

use std::collections::BTreeMap;

use super::Plan;
use crate::{CoreIndex, HandlerIndex, Layout, Placement};

/// Rules for the handlers of a runtime. Without rules, each handler that a plan puts on a core may
/// go to any other core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanRules {
    /// By handler, placements that must all allow the handler's core.
    allowed: BTreeMap<HandlerIndex, Vec<Placement>>,
    /// No handler is in two groups.
    groups: Vec<Vec<HandlerIndex>>,
}

/// Handlers that move together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlanUnit {
    /// At least one handler; the first determines the unit's position in the order.
    pub(super) handlers: Vec<HandlerIndex>,
}

impl PlanRules {
    /// No rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Restricts the handler to `placement`.
    #[must_use]
    pub fn only(mut self, handler: HandlerIndex, placement: Placement) -> Self {
        if placement != Placement::Any {
            self.allowed.entry(handler).or_default().push(placement);
        }
        self
    }

    /// These handlers exclude each other and can only run in turn on one core, so they stay
    /// together, and also with handlers already grouped with any of them.
    #[must_use]
    pub fn together(mut self, handlers: impl IntoIterator<Item = HandlerIndex>) -> Self {
        let mut group: Vec<_> = handlers.into_iter().collect();
        let joined = self.groups.extract_if(.., |known| known.iter().any(|known| group.contains(known)));
        let known: Vec<_> = joined.flatten().collect();
        group.retain(|handler| !known.contains(handler));
        self.groups.push([known, group].concat());
        self
    }

    /// Whether the handler may stand on this core.
    pub fn allows(&self, handler: HandlerIndex, core: CoreIndex) -> bool {
        let rules = self.allowed.get(&handler);
        rules.is_none_or(|rules| rules.iter().all(|placement| placement.allows(core)))
    }

    /// Whether the handler may stand on several of the cores.
    pub fn leaves_choice(&self, handler: HandlerIndex, layout: &Layout) -> bool {
        layout.indices().filter(|&core| self.allows(handler, core)).nth(1).is_some()
    }

    /// The core nearest to `wanted` on which the handler may stand; `wanted` if there is none.
    pub fn nearest(&self, handler: HandlerIndex, wanted: CoreIndex, layout: &Layout) -> CoreIndex {
        self.nearest_of(&[handler], wanted, layout)
    }

    /// The same for handlers that stand together.
    pub(super) fn nearest_of(
        &self,
        handlers: &[HandlerIndex],
        wanted: CoreIndex,
        layout: &Layout,
    ) -> CoreIndex {
        let may = |core: &CoreIndex| handlers.iter().all(|&handler| self.allows(handler, *core));
        let near = [wanted].into_iter().chain(layout.neighbours(wanted).iter().copied());
        near.into_iter().find(may).unwrap_or(wanted)
    }

    /// The plan as far as the rules allow: a handler on a forbidden core goes to the nearest
    /// allowed core, and the members of a group stand with the group's first member.
    #[must_use]
    pub fn fitted(&self, plan: &Plan, layout: &Layout) -> Plan {
        let order: Vec<_> = plan.iter().map(|(handler, _)| handler).collect();
        let units = self.units(plan, &order);
        let cores: Vec<_> = units.iter().filter_map(|unit| plan.core_of(unit.handlers[0])).collect();
        self.placed(plan, &units, cores, layout)
    }

    /// `plan` with a core for each unit, or the nearest allowed core.
    pub(super) fn placed(
        &self,
        plan: &Plan,
        units: &[PlanUnit],
        cores: impl IntoIterator<Item = CoreIndex>,
        layout: &Layout,
    ) -> Plan {
        let mut plan = plan.clone();
        for (unit, wanted) in units.iter().zip(cores) {
            let core = self.nearest_of(&unit.handlers, wanted, layout);
            for &handler in &unit.handlers {
                plan.put(handler, Placement::Core(core));
            }
        }
        plan
    }

    /// Whether a plan obeys all rules.
    pub fn permits(&self, plan: &Plan) -> bool {
        let placed = |(handler, placement): (HandlerIndex, &Placement)| match placement {
            Placement::Core(core) => self.allows(handler, *core),
            Placement::Any | Placement::Cores(_) => true,
        };
        let same_core = |group: &Vec<HandlerIndex>| {
            let mut cores = group.iter().filter_map(|&handler| plan.core_of(handler));
            let first = cores.next();
            cores.all(|core| Some(core) == first)
        };
        plan.iter().all(placed) && self.groups.iter().all(same_core)
    }

    /// By core, a number that is equal for cores on which the same handlers may stand. Empty if all
    /// cores are equal.
    pub(super) fn kinds(&self, layout: &Layout) -> Vec<u32> {
        let mut kinds = Vec::new();
        let mut kind = |core| {
            let of: Vec<_> = self.allowed.keys().map(|&handler| self.allows(handler, core)).collect();
            let known = kinds.iter().position(|kind| *kind == of);
            known.unwrap_or_else(|| {
                kinds.push(of);
                kinds.len() - 1
            }) as u32
        };
        let found: Vec<_> = layout.indices().map(&mut kind).collect();
        if kinds.len() > 1 { found } else { Vec::new() }
    }

    /// The units of a plan that may stand on several cores.
    pub(super) fn free_units(&self, plan: &Plan, order: &[HandlerIndex], layout: &Layout) -> Vec<PlanUnit> {
        let mut units = self.units(plan, order);
        units.retain(|unit| unit.handlers.iter().all(|&handler| self.leaves_choice(handler, layout)));
        units
    }

    /// The handlers with a single core, in units that move together, in the given order of
    /// handlers.
    fn units(&self, plan: &Plan, order: &[HandlerIndex]) -> Vec<PlanUnit> {
        let mut units: Vec<PlanUnit> = Vec::new();
        for &handler in order.iter().filter(|&&handler| plan.core_of(handler).is_some()) {
            let bound = |unit: &PlanUnit| unit.handlers.iter().any(|&other| self.binds(handler, other));
            let (mut joined, apart): (Vec<_>, Vec<_>) = units.into_iter().partition(bound);
            units = apart;
            let first = joined.first().map(|unit| unit.handlers[0]);
            let mut handlers: Vec<_> = joined.drain(..).flat_map(|unit| unit.handlers).collect();
            handlers.push(handler);
            // A unit has the position of its first handler in the order.
            let at = first.map_or(units.len(), |first| {
                let rank = |handler| order.iter().position(|&other| other == handler);
                units.partition_point(|unit| rank(unit.handlers[0]) < rank(first))
            });
            units.insert(at, PlanUnit { handlers });
        }
        units
    }

    /// Whether two handlers are in one group.
    pub(super) fn binds(&self, a: HandlerIndex, b: HandlerIndex) -> bool {
        self.groups.iter().any(|group| group.contains(&a) && group.contains(&b))
    }
}
