//! Event costs, as each core learns them and all cores read them.
//!
//! [`vermeil_sched::HandlerCost`] makes the estimates. Estimates spread between cores as in the
//! runtime (`costs.rs` there): a core publishes the first 16 timed runs of a handler at once, then
//! every sixteenth. A published value is the midpoint of the old value and the core's value.

use vermeil_sched::{
    CoreIndex, CostHint, Distance, Exploration, HandlerCost, RunAfter, RunSample, StealCandidate, StealCost,
    Stealing, WarmBatch, cost::PENALTY_SURE,
};

/// Timed runs of a handler between two publications by one core, as in the runtime.
const PUBLISH_EVERY: u32 = 16;

/// The published estimates for a handler, for all cores.
#[derive(Clone, Debug)]
struct PublishedEstimates {
    worth_ns: u32,
    penalty_ns: [u32; Distance::CLASSES],
    /// The part of `penalty_ns` that was measured or annotated.
    known_penalty_ns: [u32; Distance::CLASSES],
    /// Cold runs that any core has timed, up to [`PENALTY_SURE`].
    cold_runs: [u32; Distance::CLASSES],
    stay_ns: u32,
}

/// The estimates of one core for one handler.
#[derive(Clone, Debug)]
struct CoreEstimates {
    cost: HandlerCost,
    stay: WarmBatch,
    timed: u32,
}

/// The estimates of all cores.
#[derive(Clone, Debug)]
pub(crate) struct Learned {
    stealing: Stealing,
    cost_hints: Vec<CostHint>,
    published: Vec<PublishedEstimates>,
    known: Vec<Vec<CoreEstimates>>,
    /// The measured steal costs, by core.
    moves: Vec<StealCost>,
    /// The steal cost that each core expects, by class of distance. Every visit reads this table.
    steal_ns: Vec<[u64; Distance::CLASSES]>,
    /// The usual steal cost by class of distance, for the core that posts, and the usual wake cost.
    usual_steal_ns: [u32; Distance::CLASSES],
    wake_ns: u32,
    explorations: Vec<Exploration>,
}

impl Learned {
    /// Starts with the annotations only.
    pub(crate) fn new(stealing: Stealing, cores: usize, cost_hints: Vec<CostHint>) -> Self {
        let start = |cost_hint: &CostHint| {
            let cost = HandlerCost::new(*cost_hint);
            let penalty = |class| clamp(cost.penalty_ns(Distance::of_class(class)));
            let known_penalty = |class| clamp(cost.penalty_known_ns(Distance::of_class(class)));
            let worth_ns = worth(&cost, *cost_hint, stealing);
            PublishedEstimates {
                worth_ns,
                penalty_ns: std::array::from_fn(penalty),
                known_penalty_ns: std::array::from_fn(known_penalty),
                cold_runs: [0; Distance::CLASSES],
                stay_ns: 0,
            }
        };
        let known = |cost_hint: &CostHint| CoreEstimates {
            cost: HandlerCost::new(*cost_hint),
            stay: WarmBatch::default(),
            timed: 0,
        };
        let unseen_ns = |class| StealCost::unseen_ns(Distance::of_class(class));
        Self {
            stealing,
            published: cost_hints.iter().map(start).collect(),
            known: vec![cost_hints.iter().map(known).collect(); cores],
            cost_hints,
            moves: vec![StealCost::default(); cores],
            steal_ns: vec![std::array::from_fn(unseen_ns); cores],
            usual_steal_ns: std::array::from_fn(|class| clamp(unseen_ns(class))),
            wake_ns: clamp(StealCost::default().wake_ns()),
            explorations: vec![Exploration::default(); cores],
        }
    }

    /// The worth that an event of a handler adds to the event's color; 0 if no core steals.
    pub(crate) fn cost_ns(&self, handler: u16) -> u64 {
        if self.stealing.is_on() { self.published[usize::from(handler)].worth_ns.into() } else { 0 }
    }

    /// The extra time of the next run after a move.
    pub(crate) fn penalty_ns(&self, handler: u16, distance: Distance) -> u64 {
        self.published[usize::from(handler)].penalty_ns[distance.class()].into()
    }

    /// The part of [`Learned::penalty_ns`] that was measured or annotated.
    pub(crate) fn known_penalty_ns(&self, handler: u16, distance: Distance) -> u64 {
        self.published[usize::from(handler)].known_penalty_ns[distance.class()].into()
    }

    /// How long a color whose last queued event is of this handler stays on the core while other
    /// colors wait.
    pub(crate) fn extension_ns(&self, handler: u16) -> u64 {
        self.published[usize::from(handler)].stay_ns.into()
    }

    /// Whether a color whose last run was timed, and whose last queued event is of this handler,
    /// stays for a measurement.
    pub(crate) fn tries_extension(&mut self, core: CoreIndex, handler: u16) -> bool {
        self.known[core.0 as usize][usize::from(handler)].stay.tries_extension()
    }

    /// The time that a core expects a steal over a distance to cost.
    pub(crate) fn steal_ns(&self, core: CoreIndex, distance: Distance) -> u64 {
        self.steal_ns[core.0 as usize][distance.class()]
    }

    /// Records the cost of a steal for a core.
    pub(crate) fn observe_steal(&mut self, core: CoreIndex, distance: Distance, took_ns: u64) {
        let moves = &mut self.moves[core.0 as usize];
        moves.observe(distance, took_ns);
        let estimate_ns = moves.estimate_ns(distance);
        self.steal_ns[core.0 as usize][distance.class()] = estimate_ns;
        let usual_ns = &mut self.usual_steal_ns[distance.class()];
        *usual_ns = usual_ns.midpoint(clamp(estimate_ns));
    }

    /// The usual cost of a steal over a distance: the midpoint of the estimates of all cores. The
    /// poster of an event decides with this cost whether to wake a thief, and whether a color comes
    /// to the poster. A thief uses [`Learned::steal_ns`] instead, because a thief has timed steals.
    pub(crate) fn usual_steal_ns(&self, distance: Distance) -> u64 {
        self.usual_steal_ns[distance.class()].into()
    }

    /// Records how long a core took to wake after the call.
    pub(crate) fn observe_wake(&mut self, core: CoreIndex, after_ns: u64) {
        let moves = &mut self.moves[core.0 as usize];
        moves.observe_wake(after_ns);
        self.wake_ns = self.wake_ns.midpoint(clamp(moves.wake_ns()));
    }

    /// The time to wake a core.
    pub(crate) fn wake_ns(&self) -> u64 {
        self.wake_ns.into()
    }

    /// Whether a core takes a color as an experiment, over a distance. The color would otherwise
    /// stay because of learned numbers alone.
    pub(crate) fn explores(
        &mut self,
        core: CoreIndex,
        color: &StealCandidate,
        (distance, steal_ns): (Distance, u64),
        at_ns: u64,
    ) -> bool {
        let exploration = &mut self.explorations[core.0 as usize];
        exploration.due(self.stealing, color, (steal_ns, StealCost::unseen_ns(distance)), at_ns)
    }

    /// Records a timed run, whose predecessor on the core is `after`. Publishes the estimates if
    /// they are due.
    pub(crate) fn observe(&mut self, core: CoreIndex, handler: u16, sample: RunSample, after: RunAfter) {
        let index = usize::from(handler);
        let known = &mut self.known[core.0 as usize][index];
        known.cost.observe(sample);
        if sample.cold.is_none() {
            known.stay.observe(sample.run_ns, after);
        }
        if let Some(distance) = sample.cold {
            let runs = &mut self.published[index].cold_runs[distance.class()];
            *runs = (*runs + 1).min(PENALTY_SURE);
        }
        known.timed += 1;
        self.explorations[core.0 as usize].earn(sample.run_ns);
        if known.timed <= PUBLISH_EVERY || known.timed.is_multiple_of(PUBLISH_EVERY) {
            let published = &mut self.published[index];
            let worth_ns = worth(&known.cost, self.cost_hints[index], self.stealing);
            published.worth_ns = published.worth_ns.midpoint(worth_ns);
            if let Some(stay_ns) = known.stay.extension_ns() {
                published.stay_ns = published.stay_ns.midpoint(clamp(stay_ns));
            }
            for (class, penalty_ns) in published.penalty_ns.iter_mut().enumerate().skip(1) {
                let distance = Distance::of_class(class);
                let mine = clamp(known.cost.penalty_among_ns(distance, published.cold_runs[class]));
                let has_seen = known.cost.has_seen(distance);
                *penalty_ns = if has_seen { penalty_ns.midpoint(mine) } else { mine.min(*penalty_ns) };
            }
            for (class, known_ns) in published.known_penalty_ns.iter_mut().enumerate().skip(1) {
                let distance = Distance::of_class(class);
                if known.cost.has_seen(distance) {
                    *known_ns = known_ns.midpoint(clamp(known.cost.penalty_known_ns(distance)));
                }
            }
        }
    }
}

/// The worth that an event adds to the event's color: at least 1. Mely uses the annotated time.
fn worth(cost: &HandlerCost, cost_hint: CostHint, stealing: Stealing) -> u32 {
    let annotated = stealing == Stealing::TimeLeft && cost_hint.cost_ns > 0;
    let cost_ns = if annotated { cost_hint.cost_ns.into() } else { cost.estimate_ns() };
    clamp(stealing.queued_ns(cost_ns, cost_hint.penalty).max(1))
}

fn clamp(ns: u64) -> u32 {
    u32::try_from(ns).unwrap_or(u32::MAX)
}
