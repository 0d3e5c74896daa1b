//! The static plans of the first experiments with placement, for any number of handlers and any
//! machine.
//!
//! Contains the four arrangements of a pipeline (Genevès, 2008): round robin, cache-aware, and two
//! in between. Handlers are taken in the order of registration. On 16 handlers and two processors
//! of two cores each with a shared L2 the plans equal the published sequences, which
//! `plan/tests.rs` checks.

use super::{Plan, PlanRules};
use crate::{CoreIndex, Distance, HandlerIndex, Layout, PlanName, Symmetry};

/// The four names, the most parallel first.
const NAMES: [PlanName; 4] =
    [PlanName::RoundRobin, PlanName::Intermediate2, PlanName::Intermediate1, PlanName::CacheAware];

impl Plan {
    /// The plan of this name for `handlers` handlers; `None` for [`PlanName::File`].
    pub fn named(name: &PlanName, handlers: usize, layout: &Layout) -> Option<Self> {
        let symmetry = Symmetry::of(layout);
        let cores = symmetry.cores();
        Some(match name {
            PlanName::RoundRobin => Self::on_cores((0..handlers).map(|handler| cores[handler % cores.len()])),
            PlanName::CacheAware => Self::in_runs(handlers, &one_each(cores), 1),
            PlanName::Intermediate1 => Self::in_runs(handlers, &sharing_a_cache(layout), 1),
            PlanName::Intermediate2 => Self::in_runs(handlers, &sharing_a_cache(layout), 2),
            PlanName::File(_) => return None,
        })
    }

    /// All four named plans, the most parallel first.
    pub fn all_named(handlers: usize, layout: &Layout) -> Vec<Self> {
        NAMES.iter().filter_map(|name| Self::named(name, handlers, layout)).collect()
    }

    /// Consecutive handlers go to the cores of one group in turn; then to the next group, and
    /// `passes` times through all groups.
    fn in_runs(handlers: usize, groups: &[Vec<CoreIndex>], passes: usize) -> Self {
        let runs = groups.len() * passes;
        let place = |handler: usize| {
            let run = handler * runs / handlers;
            let begin = (run * handlers).div_ceil(runs);
            let group = &groups[run % groups.len()];
            group[(handler - begin) % group.len()]
        };
        Self::on_cores((0..handlers).map(place))
    }
}

impl PlanRules {
    /// The plan of this name as far as the rules allow; `None` for [`PlanName::File`]. Handlers
    /// without a choice stay on their core, and the plan arranges the others alone, each group as a
    /// single handler. A handler on a forbidden core goes to the nearest allowed core.
    pub fn named(&self, name: &PlanName, handlers: usize, layout: &Layout) -> Option<Plan> {
        let plan = Plan::on_cores((0..handlers).map(|_| CoreIndex(0)));
        let order: Vec<_> = (0..handlers as u32).map(HandlerIndex).collect();
        let free = self.free_units(&plan, &order, layout);
        let named = Plan::named(name, free.len(), layout)?;
        let cores = named.iter().filter_map(|(unit, _)| named.core_of(unit));
        Some(self.placed(&self.fitted(&plan, layout), &free, cores, layout))
    }

    /// All four named plans, the most parallel first.
    pub fn all_named(&self, handlers: usize, layout: &Layout) -> Vec<Plan> {
        NAMES.iter().filter_map(|name| self.named(name, handlers, layout)).collect()
    }
}

fn one_each(cores: &[CoreIndex]) -> Vec<Vec<CoreIndex>> {
    cores.iter().map(|&core| vec![core]).collect()
}

/// The cores by the nearest cache that several cores share; all cores together if no cache is
/// shared. Hardware threads of a core count as cores that share its L2.
fn sharing_a_cache(layout: &Layout) -> Vec<Vec<CoreIndex>> {
    [Distance::L2, Distance::L3, Distance::Node]
        .into_iter()
        .map(|level| layout.groups_within(level))
        .find(|groups| groups.len() < layout.cores())
        .unwrap_or_else(|| vec![layout.indices().collect()])
}
