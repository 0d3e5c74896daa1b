//! The costs that a core learns from its timed runs, steals and wake-ups, and the publication of
//! these costs.
//!
//! Each core has a [`Learner`], which makes estimates, chooses the runs to time and the steals to
//! explore, and moves the published costs (`learner/published.rs`) towards its estimates. The
//! runtime and the simulator both use these types. Leaves out the clock. Tested in
//! `learner/tests.rs`.

mod published;
#[cfg(test)]
mod tests;

pub use published::{PublishedCosts, PublishedMoves, PublishedWord};

use crate::{
    CostHint, Distance, Exploration, HandlerIndex, RunAfter, RunSample, Sampler, StealCandidate, StealCost,
    Stealing, WarmBatch, WarmCost, cost::CostTable,
};

/// Timed runs of a handler between two publications by the same core. The first few are published
/// at once. All cores read the published line, so a publication transfers the line: 40 ns within a
/// level 3 cache, which this number divides to less than 3 ns for each timed run.
const PUBLISH_EVERY: u32 = 16;

/// The estimates of a single core.
#[derive(Clone, Debug)]
pub struct Learner {
    stealing: Stealing,
    costs: CostTable,
    /// As long as `costs`.
    handlers: Vec<LearnedHandler>,
    moves: StealCost,
    /// The estimates of `moves`, because thieves read them at every visit.
    steal_ns: [u64; Distance::CLASSES],
    sampler: Sampler,
    exploration: Exploration,
}

#[derive(Clone, Debug)]
struct LearnedHandler {
    warm_batch: WarmBatch,
    cost_hint: CostHint,
    /// Timed runs, from the last change of the cost.
    timed: u32,
    /// The phase of the handler at the last timed run, as published.
    phase: u32,
}

impl Learner {
    /// A core that has timed nothing.
    pub fn new(stealing: Stealing) -> Self {
        let moves = StealCost::default();
        Self {
            stealing,
            costs: CostTable::new(),
            handlers: Vec::new(),
            moves,
            steal_ns: std::array::from_fn(|class| moves.estimate_ns(Distance::of_class(class))),
            sampler: Sampler::default(),
            exploration: Exploration::default(),
        }
    }

    /// Makes room for the estimates of `handler`, and of all handlers with lower numbers.
    #[inline]
    pub fn register(&mut self, handler: HandlerIndex, cost_hint: impl Fn(HandlerIndex) -> CostHint) {
        while self.handlers.len() <= handler.0 as usize {
            let cost_hint = cost_hint(HandlerIndex(self.handlers.len() as u32));
            self.costs.register(cost_hint);
            self.handlers.push(LearnedHandler {
                warm_batch: WarmBatch::default(),
                cost_hint,
                timed: 0,
                phase: 0,
            });
        }
    }

    /// The estimates by handler.
    pub fn costs(&self) -> &CostTable {
        &self.costs
    }

    /// Expected duration of a warm run of a handler, in nanoseconds; 0 if the handler is not
    /// registered.
    #[inline]
    pub fn expects_ns(&self, handler: HandlerIndex) -> u64 {
        let known = (handler.0 as usize) < self.costs.len();
        if known { self.costs.estimate_ns(handler) } else { 0 }
    }

    /// Whether to time the next activation, which is expected to take `expected_ns`.
    #[inline]
    pub fn times(&mut self, expected_ns: u64) -> bool {
        self.sampler.due(expected_ns)
    }

    /// Whether a color with a timed last run and a next event of `handler` stays for a measurement,
    /// while `waiting` other colors wait.
    pub fn tries_extension(&mut self, handler: HandlerIndex, waiting: usize) -> bool {
        let known = self.handlers.get_mut(handler.0 as usize);
        known.is_some_and(|known| known.warm_batch.tries_extension(waiting))
    }

    /// Takes in a timed run of a registered handler, where `after` tells the event before, and
    /// publishes the estimates at intervals.
    pub fn observe<W: PublishedWord>(
        &mut self,
        handler: HandlerIndex,
        sample: RunSample,
        after: RunAfter,
        published: &PublishedCosts<W>,
    ) {
        let known = &mut self.handlers[handler.0 as usize];
        let phase = published.phase();
        let has_changed = std::mem::replace(&mut known.phase, phase) != phase;
        let others = published.measured_ns().map(|cost_ns| WarmCost { cost_ns, has_changed });
        let cost = self.costs.handler(handler);
        let (changes, was_guess) = (cost.changes(), cost.is_guess());
        self.costs.observe_beside(handler, sample, others);
        let cost = self.costs.handler(handler);
        if cost.changes() != changes {
            known.phase = published.begin_phase();
        }
        if known.phase != phase || has_changed || cost.is_guess() != was_guess {
            // The next runs are published at once, as the first.
            known.timed = 0;
        }
        if let Some(distance) = sample.cold.filter(|_| !sample.interrupted) {
            published.count_cold_run(distance);
        }
        if sample.cold.is_none() && !sample.interrupted {
            published.count_warm_run();
            known.warm_batch.observe(sample.run_ns, after);
        }
        known.timed += 1;
        self.exploration.earn(sample.run_ns);
        if known.timed <= PUBLISH_EVERY || known.timed.is_multiple_of(PUBLISH_EVERY) {
            let extension_ns = known.warm_batch.extension_ns();
            published.meet(handler, &self.costs, (known.cost_hint, self.stealing), extension_ns);
        }
    }

    /// Records that an observed run has missed `lines` cache lines; `cold` as in [`RunSample`].
    pub fn observe_misses(&mut self, handler: HandlerIndex, cold: Option<Distance>, lines: u64) {
        self.costs.observe_misses(handler, cold, lines);
    }

    /// Whether to take a color over `distance` although learned costs forbid the steal, in order to
    /// learn.
    pub fn explores(
        &mut self,
        color: &StealCandidate,
        (distance, steal_ns): (Distance, u64),
        now_ns: u64,
    ) -> bool {
        let costs_ns = (steal_ns, StealCost::unseen_ns(distance));
        self.exploration.due(self.stealing, color, costs_ns, now_ns)
    }

    /// Nanoseconds spent on such steals so far.
    pub fn explored_ns(&self) -> u64 {
        self.exploration.spent_ns()
    }

    /// This core's cost of a steal over `distance`.
    #[inline]
    pub fn steal_ns(&self, distance: Distance) -> u64 {
        self.steal_ns[distance.class()]
    }

    /// Records that a steal over `distance` took this core `each_ns` per color.
    pub fn stole<W: PublishedWord>(
        &mut self,
        distance: Distance,
        each_ns: u64,
        published: &PublishedMoves<W>,
    ) {
        self.moves.observe(distance, each_ns);
        let estimate_ns = self.moves.estimate_ns(distance);
        self.steal_ns[distance.class()] = estimate_ns;
        published.meet_steal(distance, estimate_ns);
    }

    /// Records that this core was awake `after_ns` after the call.
    pub fn woke<W: PublishedWord>(&mut self, after_ns: u64, published: &PublishedMoves<W>) {
        self.moves.observe_wake(after_ns);
        published.meet_wake(self.moves.wake_ns());
    }
}
