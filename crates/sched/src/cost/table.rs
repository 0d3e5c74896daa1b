//! The learned costs of all handlers, by one core or by all cores together.
//!
//! Contains the table by handler and the merge. A core writes only its own table; the monitor
//! merges copies. Tested in `cost/tests.rs`.

use super::{CostHint, HandlerCost, MissCost, RunSample, WarmCost};
use crate::{Distance, HandlerIndex};

/// Costs of all handlers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CostTable {
    handlers: Vec<HandlerCost>,
    /// As long as `handlers` from the first counted miss on, empty if the machine counts no misses.
    misses: Vec<MissCost>,
}

impl CostTable {
    /// A table without handlers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next handler, with the author's annotations.
    pub fn register(&mut self, cost_hint: CostHint) -> HandlerIndex {
        self.handlers.push(HandlerCost::new(cost_hint));
        HandlerIndex(self.handlers.len() as u32 - 1)
    }

    /// The number of handlers.
    pub fn len(&self) -> usize {
        self.handlers.len()
    }

    /// Whether there is no handler.
    pub fn is_empty(&self) -> bool {
        self.handlers.is_empty()
    }

    /// The learned costs of a handler.
    ///
    /// # Panics
    /// When the handler was not registered: a fault of the caller. All methods that take a handler
    /// panic in this case.
    pub fn handler(&self, handler: HandlerIndex) -> &HandlerCost {
        &self.handlers[handler.0 as usize]
    }

    /// The learned cache misses of a handler, if misses are counted.
    pub fn misses(&self, handler: HandlerIndex) -> Option<&MissCost> {
        self.misses.get(handler.0 as usize)
    }

    /// Adds a timed run.
    pub fn observe(&mut self, handler: HandlerIndex, sample: RunSample) {
        self.handlers[handler.0 as usize].observe(sample);
    }

    /// Adds a timed run; see [`HandlerCost::observe_beside`].
    pub fn observe_beside(&mut self, handler: HandlerIndex, sample: RunSample, others: Option<WarmCost>) {
        self.handlers[handler.0 as usize].observe_beside(sample, others);
    }

    /// Adds the misses of a run, if the machine counts misses.
    pub fn observe_misses(&mut self, handler: HandlerIndex, cold: Option<Distance>, misses: u64) {
        self.misses.resize(self.handlers.len(), MissCost::default());
        self.misses[handler.0 as usize].observe(cold, misses);
    }

    /// Expected time of a warm run, in nanoseconds.
    pub fn estimate_ns(&self, handler: HandlerIndex) -> u64 {
        self.handler(handler).estimate_ns()
    }

    /// Extra time of a run after a move, in nanoseconds: the learned mean, or until that is sure
    /// the lower of the bounds by time and by misses.
    pub fn penalty_ns(&self, handler: HandlerIndex, distance: Distance) -> u64 {
        let cost = self.handler(handler);
        let by_time = cost.penalty_ns(distance);
        if cost.is_sure(distance) {
            return by_time;
        }
        let witness = self.misses.get(handler.0 as usize);
        witness.and_then(|misses| misses.penalty_upper_ns(distance)).map_or(by_time, |most| most.min(by_time))
    }

    /// As [`CostTable::penalty_ns`], where all cores together have timed `runs` cold runs.
    pub fn penalty_among_ns(&self, handler: HandlerIndex, distance: Distance, runs: u32) -> u64 {
        self.handler(handler).penalty_among_ns(distance, runs).min(self.penalty_ns(handler, distance))
    }

    /// The part of the penalty that was seen or annotated, in nanoseconds: at most
    /// [`CostTable::penalty_ns`].
    pub fn penalty_known_ns(&self, handler: HandlerIndex, distance: Distance) -> u64 {
        self.handler(handler).penalty_known_ns(distance).min(self.penalty_ns(handler, distance))
    }

    /// Lower bound of the cost of a move, in nanoseconds: the learned bound, or zero.
    pub fn penalty_lower_ns(&self, handler: HandlerIndex, distance: Distance) -> u64 {
        self.handler(handler).penalty_lower_ns(distance)
    }

    /// Called once per round of control.
    pub fn fade(&mut self) {
        self.handlers.iter_mut().for_each(HandlerCost::fade);
    }

    /// Merges another core's table; handlers that only one table has are kept. Merge into a fresh
    /// copy.
    pub fn merge(&mut self, other: &Self) {
        self.handlers.resize(self.handlers.len().max(other.handlers.len()), HandlerCost::default());
        for (own, other) in self.handlers.iter_mut().zip(&other.handlers) {
            own.merge(other);
        }
        if !other.misses.is_empty() {
            self.misses.resize(self.handlers.len(), MissCost::default());
        }
        for (own, other) in self.misses.iter_mut().zip(&other.misses) {
            own.merge(other);
        }
    }
}
