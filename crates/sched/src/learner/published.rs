//! The published costs: the estimates that all cores read. Each core moves them towards its own.
//!
//! A core stores the mean of the published estimate and its own, so cores with different estimates
//! meet in the middle. The words are atomics in the runtime, and plain cells in the simulator. No
//! word depends on another, so relaxed loads and stores suffice: `published.md` argues this. Tested
//! in `learner/tests.rs`.

use crate::{
    CostHint, Distance, HandlerCost, HandlerIndex, StealCost, Stealing,
    cost::{COST_SURE, CostTable, PENALTY_SURE},
};
use std::{
    cell::Cell,
    sync::atomic::{AtomicU32, Ordering},
};

/// A word that any core stores and all cores read.
pub trait PublishedWord: Default {
    /// The present value.
    fn get(&self) -> u32;

    /// Stores a value.
    fn set(&self, value: u32);

    /// Stores the mean, so that two cores with different estimates meet in the middle. An equal
    /// estimate stores nothing, so that the cache line stays shared.
    fn meet(&self, mine: u32) {
        let theirs = self.get();
        if theirs != mine {
            self.set(theirs.midpoint(mine));
        }
    }

    /// Stores `most` if the value is greater.
    fn lower(&self, most: u32) {
        if self.get() > most {
            self.set(most);
        }
    }
}

impl PublishedWord for AtomicU32 {
    #[inline]
    fn get(&self) -> u32 {
        self.load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&self, value: u32) {
        self.store(value, Ordering::Relaxed);
    }
}

impl PublishedWord for Cell<u32> {
    #[inline]
    fn get(&self) -> u32 {
        Cell::get(self)
    }

    #[inline]
    fn set(&self, value: u32) {
        Cell::set(self, value);
    }
}

/// Published costs of a handler.
#[derive(Clone, Debug, Default)]
pub struct PublishedCosts<W> {
    worth_ns: W,
    /// Warm runs that any core has timed, up to [`COST_SURE`].
    warm_runs: W,
    /// Changes of the cost that any core has noticed.
    phase: W,
    penalty_ns: [W; Distance::CLASSES],
    known_penalty_ns: [W; Distance::CLASSES],
    /// Cold runs that any core has timed, by class of distance, up to [`PENALTY_SURE`].
    cold_runs: [W; Distance::CLASSES],
    extension_ns: W,
}

impl<W: PublishedWord> PublishedCosts<W> {
    /// The assumptions from before the first timed run.
    pub fn new(cost_hint: CostHint, stealing: Stealing) -> Self {
        let published = Self::default();
        published.start(cost_hint, stealing);
        published
    }

    /// Stores the assumptions from before the first timed run.
    pub fn start(&self, cost_hint: CostHint, stealing: Stealing) {
        let cost = HandlerCost::new(cost_hint);
        self.worth_ns.set(worth(&cost, cost_hint, stealing));
        for (class, penalty_ns) in self.penalty_ns.iter().enumerate() {
            penalty_ns.set(clamp(cost.penalty_ns(Distance::of_class(class))));
        }
        for (class, known_ns) in self.known_penalty_ns.iter().enumerate() {
            known_ns.set(clamp(cost.penalty_known_ns(Distance::of_class(class))));
        }
    }

    /// The worth that an event adds to its color.
    #[inline]
    pub fn worth_ns(&self) -> u32 {
        self.worth_ns.get()
    }

    /// The worth, once warm runs have shown it.
    pub(super) fn measured_ns(&self) -> Option<u64> {
        (self.warm_runs.get() >= COST_SURE).then(|| self.worth_ns().into())
    }

    /// Extra time of a run after a move.
    #[inline]
    pub fn penalty_ns(&self, distance: Distance) -> u64 {
        self.penalty_ns[distance.class()].get().into()
    }

    /// The part of [`penalty_ns`](Self::penalty_ns) that was measured or annotated.
    #[inline]
    pub fn known_penalty_ns(&self, distance: Distance) -> u64 {
        self.known_penalty_ns[distance.class()].get().into()
    }

    /// How long a color with a next event of this handler stays while others wait.
    #[inline]
    pub fn extension_ns(&self) -> u64 {
        self.extension_ns.get().into()
    }

    /// The number of changes of the cost that any core has noticed.
    pub(super) fn phase(&self) -> u32 {
        self.phase.get()
    }

    /// Records that the cost has changed. Returns the number of changes.
    pub(super) fn begin_phase(&self) -> u32 {
        let phase = self.phase.get().wrapping_add(1);
        self.phase.set(phase);
        phase
    }

    /// A warm run was timed. Stores are rare, so the line stays shared.
    pub(super) fn count_warm_run(&self) {
        let runs = self.warm_runs.get();
        if runs < COST_SURE {
            self.warm_runs.set(runs + 1);
        }
    }

    /// A cold run over `distance` was timed. Stores are rare, so the line stays shared.
    pub(super) fn count_cold_run(&self, distance: Distance) {
        let runs = &self.cold_runs[distance.class()];
        if runs.get() < PENALTY_SURE {
            runs.set(runs.get() + 1);
        }
    }

    /// Publishes a core's estimates of `handler`.
    pub(super) fn meet(
        &self,
        handler: HandlerIndex,
        costs: &CostTable,
        (cost_hint, stealing): (CostHint, Stealing),
        extension_ns: Option<u64>,
    ) {
        let cost = costs.handler(handler);
        // The cost of a core that runs the handler cold only comes from the others.
        if cost.runs_warm() || self.measured_ns().is_none() {
            self.worth_ns.meet(worth(cost, cost_hint, stealing));
        }
        if let Some(extension_ns) = extension_ns {
            self.extension_ns.meet(clamp(extension_ns));
        }
        for (class, penalty_ns) in self.penalty_ns.iter().enumerate().skip(1) {
            let distance = Distance::of_class(class);
            let mine = clamp(costs.penalty_among_ns(handler, distance, self.cold_runs[class].get()));
            // A core without a cold run knows only a bound, which must not replace another core's
            // measurement.
            if cost.has_seen(distance) { penalty_ns.meet(mine) } else { penalty_ns.lower(mine) }
        }
        for (class, known_ns) in self.known_penalty_ns.iter().enumerate().skip(1) {
            let distance = Distance::of_class(class);
            if cost.has_seen(distance) {
                known_ns.meet(clamp(costs.penalty_known_ns(handler, distance)));
            }
        }
    }
}

/// Published costs of steals and wake-ups, because a core that wakes a thief has not timed the
/// thief's steals.
#[derive(Clone, Debug)]
pub struct PublishedMoves<W> {
    /// By class of distance.
    steal_ns: [W; Distance::CLASSES],
    wake_ns: W,
}

impl<W: PublishedWord> Default for PublishedMoves<W> {
    fn default() -> Self {
        let (unseen, moves) =
            (StealCost::default(), Self { steal_ns: Default::default(), wake_ns: W::default() });
        for (class, steal_ns) in moves.steal_ns.iter().enumerate() {
            steal_ns.set(clamp(unseen.estimate_ns(Distance::of_class(class))));
        }
        moves.wake_ns.set(clamp(unseen.wake_ns()));
        moves
    }
}

impl<W: PublishedWord> PublishedMoves<W> {
    /// The usual cost of a steal over `distance`. A thief uses its own estimate instead
    /// ([`super::Learner::steal_ns`]), because a thief has timed steals.
    #[inline]
    pub fn steal_ns(&self, distance: Distance) -> u64 {
        self.steal_ns[distance.class()].get().into()
    }

    /// The usual time to wake a core.
    #[inline]
    pub fn wake_ns(&self) -> u64 {
        self.wake_ns.get().into()
    }

    pub(super) fn meet_steal(&self, distance: Distance, estimate_ns: u64) {
        self.steal_ns[distance.class()].meet(clamp(estimate_ns));
    }

    pub(super) fn meet_wake(&self, estimate_ns: u64) {
        self.wake_ns.meet(clamp(estimate_ns));
    }
}

/// The worth that an event adds to its color: at least 1. Mely uses the annotated time.
fn worth(cost: &HandlerCost, cost_hint: CostHint, stealing: Stealing) -> u32 {
    let annotated = stealing == Stealing::TimeLeft && cost_hint.cost_ns > 0;
    let cost_ns = if annotated { cost_hint.cost_ns.into() } else { cost.estimate_ns() };
    clamp(stealing.queued_ns(cost_ns, cost_hint.penalty).max(1))
}

fn clamp(ns: u64) -> u32 {
    u32::try_from(ns).unwrap_or(u32::MAX)
}
