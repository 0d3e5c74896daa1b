//! The costs of events and moves: learned by each core, published for all cores.
//!
//! [`Learner`] and the published words are the runtime's, here without threads.

use std::cell::Cell;

use vermeil_sched::{
    CoreIndex, CostHint, Distance, HandlerIndex, Learner, PublishedCosts, PublishedMoves, RunAfter,
    RunSample, Stealing,
};

/// The estimates of all cores.
#[derive(Debug)]
pub(crate) struct SimCosts {
    stealing: Stealing,
    /// By handler.
    published: Vec<PublishedCosts<Cell<u32>>>,
    /// The usual costs of steals and wake-ups.
    pub(crate) moves: PublishedMoves<Cell<u32>>,
    /// By core.
    learners: Vec<Learner>,
}

impl SimCosts {
    /// Starts with the annotations only.
    pub(crate) fn new(stealing: Stealing, cores: usize, cost_hints: &[CostHint]) -> Self {
        let mut learner = Learner::new(stealing);
        for handler in 0..cost_hints.len() {
            learner.register(HandlerIndex(handler as u32), |handler| cost_hints[handler.0 as usize]);
        }
        Self {
            stealing,
            published: cost_hints.iter().map(|&hint| PublishedCosts::new(hint, stealing)).collect(),
            moves: PublishedMoves::default(),
            learners: vec![learner; cores],
        }
    }

    /// The worth that an event of a handler adds to the event's color; 0 if no core steals.
    pub(crate) fn worth_ns(&self, handler: u16) -> u64 {
        if self.stealing.is_on() { self.published(handler).worth_ns().into() } else { 0 }
    }

    pub(crate) fn published(&self, handler: u16) -> &PublishedCosts<Cell<u32>> {
        &self.published[usize::from(handler)]
    }

    pub(crate) fn learner(&self, core: CoreIndex) -> &Learner {
        &self.learners[core.0 as usize]
    }

    pub(crate) fn learner_mut(&mut self, core: CoreIndex) -> &mut Learner {
        &mut self.learners[core.0 as usize]
    }

    /// A core has timed a run, whose predecessor on the core is `after`.
    pub(crate) fn observe(&mut self, core: CoreIndex, handler: u16, sample: RunSample, after: RunAfter) {
        let (learner, index) = (&mut self.learners[core.0 as usize], usize::from(handler));
        learner.observe(HandlerIndex(handler.into()), sample, after, &self.published[index]);
    }

    /// A steal has taken a core `each_ns` per color.
    pub(crate) fn stole(&mut self, core: CoreIndex, distance: Distance, each_ns: u64) {
        self.learners[core.0 as usize].stole(distance, each_ns, &self.moves);
    }

    /// A core was awake `after_ns` after the call.
    pub(crate) fn woke(&mut self, core: CoreIndex, after_ns: u64) {
        self.learners[core.0 as usize].woke(after_ns, &self.moves);
    }
}
