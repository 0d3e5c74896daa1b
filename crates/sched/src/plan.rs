//! Where handlers stand: plans, how they are written, what they would cost, and the search for a better one.
//!
//! Owns [`Plan`] and the differences between two of them. The named plans stand in `plan/named.rs`, the text form in
//! `plan/file.rs`, the cost of a plan in `plan/model.rs`, the search in `plan/search.rs` and what it may not do in
//! `plan/rules.rs`. Leaves out when a plan is tried or kept (`control`). Tested in `plan/tests.rs`.

use crate::{CoreIndex, HandlerIndex, Placement};

mod file;
mod model;
mod named;
mod rules;
mod search;
#[cfg(test)]
mod tests;

pub use file::PlanFile;
pub use model::{Forecast, HandlerLoad, Model, Objective, Trust};
pub use rules::Rules;
pub use search::{CANDIDATES_MAX, CUTS_MAX, Found, Scored, SearchLimits, search};

/// Where each handler stands: on a core, on one of several, or wherever its colors go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan(Vec<Placement>);

/// One handler goes to a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Who goes.
    pub handler: HandlerIndex,
    /// Where to.
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

    /// How many handlers it knows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it knows none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where a handler stands; anywhere if the plan does not know it.
    pub fn of(&self, handler: HandlerIndex) -> &Placement {
        self.0.get(handler.0 as usize).unwrap_or(&Placement::Any)
    }

    /// The core on which a handler stands, if it is one.
    pub fn core_of(&self, handler: HandlerIndex) -> Option<CoreIndex> {
        match self.of(handler) {
            Placement::Core(core) => Some(*core),
            Placement::Any | Placement::Cores(_) => None,
        }
    }

    /// Puts a handler somewhere; handlers between the last known one and this may stand anywhere.
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

    /// What has to move so that this plan becomes `target`: the handlers that stand on one core there and not on that one
    /// here.
    pub fn moves_to(&self, target: &Self) -> Vec<Move> {
        let on_core = |(handler, placement): (HandlerIndex, &Placement)| match placement {
            Placement::Core(to) if self.core_of(handler) != Some(*to) => Some(Move { handler, to: *to }),
            _ => None,
        };
        target.iter().filter_map(on_core).collect()
    }

    /// Carries moves out.
    pub fn apply(&mut self, moves: &[Move]) {
        moves.iter().for_each(|step| self.put(step.handler, Placement::Core(step.to)));
    }
}
