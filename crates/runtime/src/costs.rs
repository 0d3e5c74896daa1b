//! The costs of events and moves: learned by each core, published for all cores.
//!
//! A core times some runs (`Learner`) and publishes estimates in a table of atomics
//! (`PublishedCosts`), which posters and thieves read. The costs of steals and wake-ups are
//! published in the same way (`PublishedMoves`). `vermeil_sched` makes the estimates; this file
//! carries them between threads. If two cores learn different values, each publishes the mean of
//! both values, so the cores meet in the middle.

use std::sync::atomic::{AtomicU32, Ordering};
use vermeil_sched::{
    CoreIndex, CostHint, Distance, Exploration, HandlerCost, HandlerIndex, RunAfter, RunSample, Sampler,
    StealCandidate, StealCost, Stealing, WarmBatch,
    cost::{CostTable, PENALTY_SURE},
};

/// Timed runs of a handler between two publications by the same core. The first few are published
/// at once. All cores read the published line, so a publication transfers the line: 40 ns within a
/// level 3 cache, which this number divides to less than 3 ns for each timed run.
const PUBLISH_EVERY: u32 = 16;

/// Published costs of a handler, for all cores.
pub(crate) struct PublishedCosts {
    /// The worth that an event adds to its color.
    worth_ns: AtomicU32,
    /// Extra time of a run after a move, by class of distance.
    penalty_ns: [AtomicU32; Distance::CLASSES],
    /// The part of `penalty_ns` that was measured or annotated.
    known_penalty_ns: [AtomicU32; Distance::CLASSES],
    /// Cold runs that any core has timed, by class of distance, up to [`PENALTY_SURE`].
    cold_runs: [AtomicU32; Distance::CLASSES],
    /// How long a color with a next event of this handler stays while others wait.
    stay_ns: AtomicU32,
}

impl PublishedCosts {
    pub(crate) fn new() -> Self {
        let published = Self {
            worth_ns: AtomicU32::new(0),
            penalty_ns: Default::default(),
            known_penalty_ns: Default::default(),
            cold_runs: Default::default(),
            stay_ns: AtomicU32::new(0),
        };
        published.start(CostHint::default(), Stealing::Never);
        published
    }

    /// Stores the assumptions from before the first timed run.
    pub(crate) fn start(&self, cost_hint: CostHint, stealing: Stealing) {
        let cost = HandlerCost::new(cost_hint);
        self.worth_ns.store(worth(&cost, cost_hint, stealing), Ordering::Relaxed);
        for (class, penalty_ns) in self.penalty_ns.iter().enumerate() {
            penalty_ns.store(clamp(cost.penalty_ns(Distance::of_class(class))), Ordering::Relaxed);
        }
        for (class, known_ns) in self.known_penalty_ns.iter().enumerate() {
            known_ns.store(clamp(cost.penalty_known_ns(Distance::of_class(class))), Ordering::Relaxed);
        }
    }

    pub(crate) fn cost_ns(&self) -> u32 {
        self.worth_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn penalty_ns(&self, distance: Distance) -> u64 {
        self.penalty_ns[distance.class()].load(Ordering::Relaxed).into()
    }

    pub(crate) fn known_penalty_ns(&self, distance: Distance) -> u64 {
        self.known_penalty_ns[distance.class()].load(Ordering::Relaxed).into()
    }

    pub(crate) fn extension_ns(&self) -> u64 {
        self.stay_ns.load(Ordering::Relaxed).into()
    }

    /// A cold run over `distance` was timed. Stores are rare, so the line stays shared.
    fn count_cold_run(&self, distance: Distance) {
        let runs = &self.cold_runs[distance.class()];
        if runs.load(Ordering::Relaxed) < PENALTY_SURE {
            runs.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn meet(&self, handler: HandlerIndex, costs: &CostTable, known: &KnownCosts, stealing: Stealing) {
        let cost = costs.handler(handler);
        meet(&self.worth_ns, worth(cost, known.cost_hint, stealing));
        if let Some(stay_ns) = known.stay.extension_ns() {
            meet(&self.stay_ns, clamp(stay_ns));
        }
        for (class, penalty_ns) in self.penalty_ns.iter().enumerate().skip(1) {
            let distance = Distance::of_class(class);
            let runs = self.cold_runs[class].load(Ordering::Relaxed);
            let mine = clamp(costs.penalty_among_ns(handler, distance, runs));
            // A core without a cold run knows only a bound, which must not replace another core's
            // measurement.
            if cost.has_seen(distance) {
                meet(penalty_ns, mine);
            } else {
                penalty_ns.fetch_min(mine, Ordering::Relaxed);
            }
        }
        for (class, known_ns) in self.known_penalty_ns.iter().enumerate().skip(1) {
            let distance = Distance::of_class(class);
            if cost.has_seen(distance) {
                meet(known_ns, clamp(costs.penalty_known_ns(handler, distance)));
            }
        }
    }
}

/// Costs of steals and wake-ups, for all cores, because a core that wakes a thief has not timed the
/// thief's steals.
pub(crate) struct PublishedMoves {
    /// By class of distance.
    steal_ns: [AtomicU32; Distance::CLASSES],
    wake_ns: AtomicU32,
}

impl Default for PublishedMoves {
    fn default() -> Self {
        let unseen = StealCost::default();
        let steal_ns = |class| clamp(unseen.estimate_ns(Distance::of_class(class)));
        Self {
            steal_ns: std::array::from_fn(|class| AtomicU32::new(steal_ns(class))),
            wake_ns: AtomicU32::new(clamp(unseen.wake_ns())),
        }
    }
}

impl PublishedMoves {
    pub(crate) fn steal_ns(&self, distance: Distance) -> u64 {
        self.steal_ns[distance.class()].load(Ordering::Relaxed).into()
    }

    pub(crate) fn wake_ns(&self) -> u64 {
        self.wake_ns.load(Ordering::Relaxed).into()
    }
}

/// Stores the mean, so that two cores with different estimates meet in the middle.
fn meet(published: &AtomicU32, mine: u32) {
    let theirs = published.load(Ordering::Relaxed);
    if theirs != mine {
        published.store(theirs.midpoint(mine), Ordering::Relaxed);
    }
}

/// The worth that an event adds to its color, at least 1 if colors are stolen. Mely uses the
/// annotated time.
fn worth(cost: &HandlerCost, cost_hint: CostHint, stealing: Stealing) -> u32 {
    let annotated = stealing == Stealing::TimeLeft && cost_hint.cost_ns > 0;
    let cost_ns = if annotated { cost_hint.cost_ns.into() } else { cost.estimate_ns() };
    clamp(stealing.queued_ns(cost_ns, cost_hint.penalty).max(1))
}

fn clamp(ns: u64) -> u32 {
    u32::try_from(ns).unwrap_or(u32::MAX)
}

/// The estimates of a single core.
pub(crate) struct Learner {
    stealing: Stealing,
    pub(crate) costs: CostTable,
    /// As long as `costs`.
    handlers: Vec<KnownCosts>,
    moves: StealCost,
    sampler: Sampler,
    exploration: Exploration,
}

struct KnownCosts {
    stay: WarmBatch,
    cost_hint: CostHint,
    timed: u32,
}

impl Learner {
    pub(crate) fn new(stealing: Stealing) -> Self {
        Self {
            stealing,
            costs: CostTable::new(),
            handlers: Vec::new(),
            moves: StealCost::default(),
            sampler: Sampler::default(),
            exploration: Exploration::default(),
        }
    }

    /// Whether to take a color over `distance` although learned costs forbid the steal, in order to
    /// learn.
    pub(crate) fn explores(
        &mut self,
        color: &StealCandidate,
        (distance, steal_ns): (Distance, u64),
        now_ns: u64,
    ) -> bool {
        let costs_ns = (steal_ns, StealCost::unseen_ns(distance));
        self.exploration.due(self.stealing, color, costs_ns, now_ns)
    }

    /// Nanoseconds spent on such steals so far.
    pub(crate) fn explored_ns(&self) -> u64 {
        self.exploration.spent_ns()
    }

    /// Records that a steal over `distance` took this core `each_ns` per color.
    pub(crate) fn stole(&mut self, distance: Distance, each_ns: u64, published: &PublishedMoves) {
        self.moves.observe(distance, each_ns);
        meet(&published.steal_ns[distance.class()], clamp(self.moves.estimate_ns(distance)));
    }

    /// Records that this core was awake `after_ns` after the call.
    pub(crate) fn woke(&mut self, after_ns: u64, published: &PublishedMoves) {
        self.moves.observe_wake(after_ns);
        meet(&published.wake_ns, clamp(self.moves.wake_ns()));
    }

    /// This core's cost of a steal over `distance`.
    pub(crate) fn steal_ns(&self, distance: Distance) -> u64 {
        self.moves.estimate_ns(distance)
    }

    /// Whether to time the next activation, which is expected to take `expected_ns`.
    pub(crate) fn times(&mut self, expected_ns: u64) -> bool {
        self.sampler.due(expected_ns)
    }

    /// Whether a color with a timed last run and a next event of `handler` stays for a measurement.
    pub(crate) fn tries_extension(&mut self, handler: HandlerIndex) -> bool {
        self.handlers.get_mut(handler.0 as usize).is_some_and(|known| known.stay.tries_extension())
    }

    /// Expected duration of a warm run of a handler, in nanoseconds; 0 if no run was timed here.
    pub(crate) fn expects_ns(&self, handler: HandlerIndex) -> u64 {
        let known = (handler.0 as usize) < self.costs.len();
        if known { self.costs.estimate_ns(handler) } else { 0 }
    }

    /// Records that an observed run has missed `lines` cache lines; `cold` as in [`RunSample`].
    pub(crate) fn observe_misses(&mut self, handler: HandlerIndex, cold: Option<Distance>, lines: u64) {
        self.costs.observe_misses(handler, cold, lines);
    }

    /// Takes in a timed run, where `after` tells the event before, and publishes the estimates at
    /// intervals.
    pub(crate) fn observe(
        &mut self,
        handler: HandlerIndex,
        sample: RunSample,
        after: RunAfter,
        published: &PublishedCosts,
        cost_hint: impl Fn(HandlerIndex) -> CostHint,
    ) {
        while self.handlers.len() <= handler.0 as usize {
            let cost_hint = cost_hint(HandlerIndex(self.handlers.len() as u32));
            self.costs.register(cost_hint);
            self.handlers.push(KnownCosts { stay: WarmBatch::default(), cost_hint, timed: 0 });
        }
        self.costs.observe(handler, sample);
        if let Some(distance) = sample.cold.filter(|_| !sample.interrupted) {
            published.count_cold_run(distance);
        }
        let known = &mut self.handlers[handler.0 as usize];
        if sample.cold.is_none() && !sample.interrupted {
            known.stay.observe(sample.run_ns, after);
        }
        known.timed += 1;
        self.exploration.earn(sample.run_ns);
        if known.timed <= PUBLISH_EVERY || known.timed.is_multiple_of(PUBLISH_EVERY) {
            published.meet(handler, &self.costs, known, self.stealing);
        }
    }
}

/// The distance that a color has moved since its last run; `None` if the color did not move.
pub(crate) fn coldness(
    layout: &vermeil_sched::Layout,
    before: Option<CoreIndex>,
    here: CoreIndex,
) -> Option<Distance> {
    before.map(|before| layout.distance(before, here))
}
