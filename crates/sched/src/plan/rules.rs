//! What a plan may not do: move what is bound, part what excludes each other.
//!
//! Owns the rules and the *units* that follow from them: sets of handlers that stand on one core together. Leaves out the search
//! that obeys them (`plan/search.rs`). Tested in `plan/tests.rs`.

use super::Plan;
use crate::{CoreIndex, HandlerIndex, Placement};

/// Rules for the handlers of a runtime. Without any, each handler that a plan puts on a core may go to any other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    allowed: Vec<(HandlerIndex, Placement)>,
    groups: Vec<Vec<HandlerIndex>>,
}

/// Handlers that move together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// At least one; the first gives the unit its place in the order.
    pub(super) handlers: Vec<HandlerIndex>,
}

impl Rules {
    /// No rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// The handler stands only where `placement` allows.
    #[must_use]
    pub fn only(mut self, handler: HandlerIndex, placement: Placement) -> Self {
        self.allowed.push((handler, placement));
        self
    }

    /// These handlers exclude each other: on one core they cannot but run in turn, so they stay together.
    #[must_use]
    pub fn together(mut self, handlers: impl IntoIterator<Item = HandlerIndex>) -> Self {
        self.groups.push(handlers.into_iter().collect());
        self
    }

    /// Whether the handler may stand on this core.
    pub fn allows(&self, handler: HandlerIndex, core: CoreIndex) -> bool {
        self.allowed.iter().all(|(ruled, placement)| *ruled != handler || placement.allows(core))
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

    /// What a plan places on single cores, in sets that move together, in the given order of handlers.
    pub(super) fn units(&self, plan: &Plan, order: &[HandlerIndex]) -> Vec<Unit> {
        let mut units: Vec<Unit> = Vec::new();
        for &handler in order.iter().filter(|&&handler| plan.core_of(handler).is_some()) {
            let bound = |unit: &Unit| unit.handlers.iter().any(|&other| self.binds(handler, other));
            let (mut joined, apart): (Vec<_>, Vec<_>) = units.into_iter().partition(bound);
            units = apart;
            let first = joined.first().map(|unit| unit.handlers[0]);
            let mut handlers: Vec<_> = joined.drain(..).flat_map(|unit| unit.handlers).collect();
            handlers.push(handler);
            // A unit stands where its first handler stands in the order.
            let at = first.map_or(units.len(), |first| {
                let rank = |handler| order.iter().position(|&other| other == handler);
                units.partition_point(|unit| rank(unit.handlers[0]) < rank(first))
            });
            units.insert(at, Unit { handlers });
        }
        units
    }

    fn binds(&self, a: HandlerIndex, b: HandlerIndex) -> bool {
        self.groups.iter().any(|group| group.contains(&a) && group.contains(&b))
    }
}
