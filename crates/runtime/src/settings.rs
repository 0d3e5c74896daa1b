//! The settings of a runtime, which never change after its start.

use crate::{limits::Limits, stamps::Noting};
use vermeil_sched::{CoreIndex, Layout, Policy, Stealing, TurnLimits};

/// The settings of a runtime.
pub(crate) struct RuntimeSettings {
    pub(crate) limits: Limits,
    pub(crate) turn: TurnLimits,
    pub(crate) policy: Policy,
    /// How `policy` steals.
    pub(crate) stealing: Stealing,
    /// Whether colors move at each batch, for tests.
    pub(crate) scatters: bool,
    /// Whether handlers have classes; cores divide their time between classes.
    pub(crate) divides: bool,
    pub(crate) layout: Layout,
    pub(crate) noting: Noting,
}

impl RuntimeSettings {
    /// Events of a batch. Under an order of events, a batch has a single event.
    pub(crate) fn batch(&self, batch: usize) -> usize {
        if self.stealing == Stealing::Anything || self.scatters { 1 } else { batch }
    }

    /// Whether the policy forbids moves between these cores.
    pub(crate) fn keeps_apart(&self, from: CoreIndex, to: CoreIndex) -> bool {
        self.policy.keeps_apart(&self.layout, from, to)
    }
}
