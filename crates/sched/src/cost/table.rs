//! What one core knows about all handlers, and what all cores know together.
//!
//! Owns the table by handler and its merge. A core writes its own table and nobody else's; the monitor merges copies. Tested in
//! `cost/tests.rs`.

use super::{HandlerCost, MissCost, Prior, Sample};
use crate::{Distance, HandlerIndex};

/// Costs of all handlers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CostTable {
    handlers: Vec<HandlerCost>,
    /// As long as `handlers` from the first counted miss on, empty where nothing counts them.
    misses: Vec<MissCost>,
}

impl CostTable {
    /// A table without handlers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next handler, with what its author says about it.
    pub fn register(&mut self, prior: Prior) -> HandlerIndex {
        self.handlers.push(HandlerCost::new(prior));
        HandlerIndex(self.handlers.len() as u32 - 1)
    }

    /// How many handlers there are.
    pub fn len(&self) -> usize {
        self.handlers.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.handlers.is_empty()
    }

    /// What is known about a handler.
    ///
    /// # Panics
    /// When it was not registered: a fault of the caller. So do all questions about a handler.
    pub fn handler(&self, handler: HandlerIndex) -> &HandlerCost {
        &self.handlers[handler.0 as usize]
    }

    /// What is known of a handler's cache misses, where they are counted.
    pub fn misses(&self, handler: HandlerIndex) -> Option<&MissCost> {
        self.misses.get(handler.0 as usize)
    }

    /// Takes in a timed run.
    pub fn observe(&mut self, handler: HandlerIndex, sample: Sample) {
        self.handlers[handler.0 as usize].observe(sample);
    }

    /// Takes in the misses of a run, where the machine counts them.
    pub fn observe_misses(&mut self, handler: HandlerIndex, cold: Option<Distance>, misses: u64) {
        self.misses.resize(self.handlers.len(), MissCost::default());
        self.misses[handler.0 as usize].observe(cold, misses);
    }

    /// Expected time of a warm run, in nanoseconds.
    pub fn estimate_ns(&self, handler: HandlerIndex) -> u64 {
        self.handler(handler).estimate_ns()
    }

    /// What a run takes longer after a move, in nanoseconds: the learned mean, or until that is sure the lower of the bounds
    /// that time and misses give.
    pub fn penalty_ns(&self, handler: HandlerIndex, distance: Distance) -> u64 {
        let cost = self.handler(handler);
        let by_time = cost.penalty_ns(distance);
        if cost.is_sure(distance) {
            return by_time;
        }
        let witness = self.misses.get(handler.0 as usize);
        witness.and_then(|misses| misses.penalty_upper_ns(distance)).map_or(by_time, |most| most.min(by_time))
    }

    /// The least that a move may cost, in nanoseconds: what was learned, or nothing.
    pub fn penalty_lower_ns(&self, handler: HandlerIndex, distance: Distance) -> u64 {
        self.handler(handler).penalty_lower_ns(distance)
    }

    /// A round of control went by.
    pub fn fade(&mut self) {
        self.handlers.iter_mut().for_each(HandlerCost::fade);
    }

    /// Takes in another core's table; what only one of them has is kept. Merge into a fresh copy.
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
