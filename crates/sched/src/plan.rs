//! Plans: the placement of handlers, its text form, its cost, and the search for a better plan.
//!
//! Contains [`Plan`] and the differences between two plans. The named plans are in `plan/named.rs`,
//! the text form in `plan/file.rs`, the cost of a plan in `plan/model.rs`, the search in
//! `plan/search.rs` and its rules in `plan/rules.rs`. Leaves out the trial and the adoption of
//! plans (`control`). Tested in `plan/tests.rs`.

use crate::{CoreIndex, HandlerIndex, Placement};

mod file;
mod model;
mod named;
mod rules;
mod search;
#[cfg(test)]
mod tests;

pub use file::PlanFile;
pub use model::{Forecast, HandlerLoad, Objective, PenaltyTrust, PlanModel};
pub use rules::PlanRules;
pub use search::{CANDIDATES_MAX, CUTS_MAX, PlanSearchResult, Scored, SearchLimits, search};

/// The placement of each handler: on a core, on a set of cores, or free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan(Vec<Placement>);

/// A move of a handler to a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The handler that moves.
    pub handler: HandlerIndex,
    /// The destination.
    pub to: CoreIndex,
}

impl Plan {
    /// A plan with one placement for each handler, by index.
    pub fn new(placements: Vec<Placement>) -> Self {
        Self(placements)
    }

    /// A plan with one core for each handler, by index.
    pub fn on_cores(cores: impl IntoIterator<Item = CoreIndex>) -> Self {
        Self(cores.into_iter().map(Placement::Core).collect())
    }

    /// The number of known handlers.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the plan has no handlers.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The placement of a handler; `Any` for an unknown handler.
    pub fn of(&self, handler: HandlerIndex) -> &Placement {
        self.0.get(handler.0 as usize).unwrap_or(&Placement::Any)
    }

    /// The core of a handler, if the placement is a single core.
    pub fn core_of(&self, handler: HandlerIndex) -> Option<CoreIndex> {
        match self.of(handler) {
            Placement::Core(core) => Some(*core),
            Placement::Any | Placement::Cores(_) => None,
        }
    }

    /// Sets the placement of a handler; handlers between the last known handler and this handler
    /// become free.
    pub fn put(&mut self, handler: HandlerIndex, placement: Placement) {
        let index = handler.0 as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, Placement::Any);
        }
        self.0[index] = placement;
    }

    /// All handlers with their placements, by index.
    pub fn iter(&self) -> impl Iterator<Item = (HandlerIndex, &Placement)> {
        self.0.iter().enumerate().map(|(index, placement)| (HandlerIndex(index as u32), placement))
    }

    /// The moves that turn this plan into `target`: all handlers with a single core in `target` and
    /// a different placement here.
    pub fn moves_to(&self, target: &Self) -> Vec<Move> {
        let on_core = |(handler, placement): (HandlerIndex, &Placement)| match placement {
            Placement::Core(to) if self.core_of(handler) != Some(*to) => Some(Move { handler, to: *to }),
            _ => None,
        };
        target.iter().filter_map(on_core).collect()
    }

    /// Carries out moves.
    pub fn apply(&mut self, moves: &[Move]) {
        moves.iter().for_each(|step| self.put(step.handler, Placement::Core(step.to)));
    }
}
