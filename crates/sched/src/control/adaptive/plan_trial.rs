//! A trial: the current plan and a candidate alternate until the verdict is clear.
//!
//! A turn is a short time to settle after the moves and a measured epoch. Contains the turns, the
//! compared figure and the charge to the regret budget. Leaves out the statistics (`paired.rs`) and
//! the start of trials (`adaptive.rs`). Tested in `control/adaptive/tests.rs`.

use super::super::{HandlerWindow, Observation, Why};
use super::paired::{Paired, PairedVerdict};
use crate::Budget;
use crate::plan::{Objective, Plan};

/// Time after a change of plan that is not measured, in nanoseconds, because data of moved handlers
/// travels to the new caches. At 10 GB/s this time loads 20 MB, as much as a core's share of the
/// largest level 3 caches.
const SETTLE_NS: u64 = 2_000_000;

/// The shortest measured epoch, in nanoseconds: five pairs of turns, with settling, fit into 100
/// ms.
const EPOCH_MIN_NS: u64 = 6_000_000;

/// The longest epoch, in nanoseconds. If events are so rare that this epoch does not see
/// [`EPOCH_EVENTS`], placement does not matter.
const EPOCH_MAX_NS: u64 = 500_000_000;

/// Events that an epoch should see. Few events suffice, because the figures do not suffer from the
/// event that the end cuts off. With many more, handlers of a millisecond would take longer than
/// 200 ms to settle.
const EPOCH_EVENTS: f64 = 24.0;

/// An epoch with fewer events is no measurement.
const EVENTS_MIN: u64 = 8;

/// Rounds to wait for the moves. After these rounds the trial assumes that another actor moved
/// handlers. At 2 ms each, that is more than the longest event that placement is meant for.
const SETTLE_ROUNDS_MAX: u32 = 100;

/// The relative difference between two turns of the current plan that counts as a change of load: a
/// quarter.
const SHIFT: f64 = 0.25;

/// The share of the current plan's work that a candidate must serve to be judged by idle time,
/// because a smaller share is no chance variation. Guess.
const SERVES_LESS: f64 = 0.9;

/// The turns of a trial.
#[derive(Debug)]
pub(super) struct PlanTrial {
    pub(super) incumbent: Plan,
    pub(super) candidate: Plan,
    pub(super) predicted: f64,
    objective: Objective,
    /// Worth of an event of each handler, in nanoseconds.
    event_ns: Vec<f64>,
    bar: f64,
    epoch_ns: u64,
    turn: TrialTurn,
    paired: Paired,
    /// Useful work in the last turn of the current plan, in cores.
    work: f64,
    /// External events in the last turn of the current plan, in events per second.
    arrivals: Option<f64>,
    /// Amount taken from the budget for the running turn, in nanoseconds.
    reserved_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum TrialTurn {
    Settle(TrialSide, u32),
    Measure(TrialSide),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum TrialSide {
    Incumbent,
    Candidate,
}

/// The next step of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TrialNext {
    /// The trial continues: handlers should stand as [`PlanTrial::standing`] says.
    On,
    /// The candidate won by this share.
    Won(f64),
    /// The candidate lost by this share.
    Lost(f64),
    /// No verdict.
    Off(Why),
}

impl PlanTrial {
    /// A trial that begins with the current plan. `event_ns`: worth of an event of each handler;
    /// `bar`: the least gain of a winning candidate; `events_per_s`: expected rate of events.
    pub(super) fn new(
        [incumbent, candidate]: [Plan; 2],
        predicted: f64,
        objective: Objective,
        event_ns: Vec<f64>,
        bar: f64,
        events_per_s: f64,
    ) -> Self {
        let epoch_ns = (EPOCH_EVENTS / events_per_s.max(1.0) * 1e9) as u64;
        Self {
            incumbent,
            candidate,
            predicted,
            objective,
            event_ns,
            bar,
            epoch_ns: epoch_ns.clamp(EPOCH_MIN_NS, EPOCH_MAX_NS),
            turn: TrialTurn::Measure(TrialSide::Incumbent),
            paired: Paired::default(),
            work: 0.0,
            arrivals: None,
            reserved_ns: 0,
        }
    }

    /// Maximum cost of a turn of the candidate, in nanoseconds: all the time from the moves until
    /// the moves are undone.
    pub(super) fn price_ns(&self) -> u64 {
        self.epoch_ns + 2 * SETTLE_NS
    }

    /// Duration of the running part, in nanoseconds.
    pub(super) fn next_round_ns(&self) -> u64 {
        match self.turn {
            TrialTurn::Settle(..) => SETTLE_NS,
            TrialTurn::Measure(_) => self.epoch_ns,
        }
    }

    /// Complete pairs.
    pub(super) fn pairs(&self) -> usize {
        self.paired.pairs()
    }

    /// The plan whose turn it is.
    pub(super) fn standing(&self) -> &Plan {
        match self.turn {
            TrialTurn::Settle(TrialSide::Incumbent, _) | TrialTurn::Measure(TrialSide::Incumbent) => {
                &self.incumbent
            }
            TrialTurn::Settle(TrialSide::Candidate, _) | TrialTurn::Measure(TrialSide::Candidate) => {
                &self.candidate
            }
        }
    }

    /// Handles the end of a part of a turn.
    pub(super) fn step(&mut self, seen: &Observation, regret: &mut Budget) -> TrialNext {
        let figure = self.figure(seen);
        match self.turn {
            TrialTurn::Settle(side, rounds) => self.settled(side, rounds, figure, seen, regret),
            TrialTurn::Measure(_) if seen.events() < EVENTS_MIN => TrialNext::Off(Why::Idle),
            TrialTurn::Measure(TrialSide::Incumbent) => self.measured_incumbent(figure, seen, regret),
            TrialTurn::Measure(TrialSide::Candidate) => self.measured_candidate(figure, regret),
        }
    }

    fn settled(
        &mut self,
        side: TrialSide,
        rounds: u32,
        figure: f64,
        seen: &Observation,
        regret: &mut Budget,
    ) -> TrialNext {
        self.charge(SETTLE_NS, figure, regret);
        let arrived = seen.placed.moves_to(self.standing()).is_empty();
        self.turn = match arrived {
            true => TrialTurn::Measure(side),
            false if rounds == SETTLE_ROUNDS_MAX => return TrialNext::Off(Why::PlacementChanged),
            false => TrialTurn::Settle(side, rounds + 1),
        };
        TrialNext::On
    }

    fn measured_incumbent(&mut self, figure: f64, seen: &Observation, regret: &mut Budget) -> TrialNext {
        self.paired.push_a(figure);
        self.work = self.work(seen);
        let arrivals = arrivals(seen);
        let before = self.arrivals.replace(arrivals);
        let uneven = |(a, b): (f64, f64)| (a - b).abs() > SHIFT * a.max(b);
        if self.paired.last_as().is_some_and(uneven)
            || before.is_some_and(|before| other_rate(before, arrivals, seen))
        {
            return TrialNext::Off(Why::LoadShifted);
        }
        match self.paired.verdict(self.bar) {
            PairedVerdict::Better(gain) => return TrialNext::Won(gain),
            PairedVerdict::NotBetter(gain) => return TrialNext::Lost(gain),
            PairedVerdict::Open => {}
        }
        if !regret.spend(self.price_ns()) {
            return TrialNext::Off(Why::RegretSpent);
        }
        self.reserved_ns = self.price_ns();
        self.turn = TrialTurn::Settle(TrialSide::Candidate, 0);
        TrialNext::On
    }

    fn measured_candidate(&mut self, figure: f64, regret: &mut Budget) -> TrialNext {
        self.paired.push_b(figure);
        self.charge(self.epoch_ns, figure, regret);
        self.turn = TrialTurn::Settle(TrialSide::Incumbent, 0);
        match self.paired.verdict(self.bar) {
            PairedVerdict::NotBetter(gain) => TrialNext::Lost(gain),
            PairedVerdict::Better(_) | PairedVerdict::Open => TrialNext::On,
        }
    }

    /// Refunds the reserved time of this part that was not lost against the current plan.
    fn charge(&mut self, part_ns: u64, figure: f64, regret: &mut Budget) {
        let part_ns = part_ns.min(self.reserved_ns);
        self.reserved_ns -= part_ns;
        let kept = (figure / self.paired.last_a().max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        regret.refund((part_ns as f64 * kept) as u64);
    }

    /// The compared figure; more is better. For throughput: the work that the cores could serve,
    /// which is useful work per time over the busiest core's share of busy time. If the candidate
    /// serves clearly less, the figure is the served work alone, however idle the cores are. For
    /// delay: the inverse of an event's time in the system, by Little's law.
    fn figure(&self, seen: &Observation) -> f64 {
        let work = self.work(seen);
        match self.objective {
            Objective::Throughput if work < SERVES_LESS * self.work => work,
            Objective::Throughput => work / seen.busiest().max(f64::MIN_POSITIVE),
            Objective::Delay => {
                let queued: u64 = seen.cores.iter().map(|core| core.queued).sum();
                work / (queued as f64 + seen.busy_cores()).max(f64::MIN_POSITIVE)
            }
        }
    }

    /// Useful work in cores: the useful share of run time, times the busy time, because neither
    /// factor has the error of the event that the window's end cuts off.
    fn work(&self, seen: &Observation) -> f64 {
        let worth = |(window, &event_ns): (&HandlerWindow, &f64)| window.events as f64 * event_ns;
        let useful: f64 = seen.handlers.iter().zip(&self.event_ns).map(worth).sum();
        let run_ns: u64 = seen.cores.iter().map(|core| core.run_ns).sum();
        useful / run_ns.max(1) as f64 * seen.busy_cores()
    }
}

/// External events per second.
fn arrivals(seen: &Observation) -> f64 {
    let outside = seen.flows.flows().filter(|flow| flow.from.is_none());
    outside.map(|flow| flow.posts).sum::<f64>() * 1e9 / seen.window_ns().max(1) as f64
}

/// Whether two rates differ by more than a quarter and by more than chance: four deviations of a
/// Poisson count.
fn other_rate(before: f64, now: f64, seen: &Observation) -> bool {
    let more = before.max(now);
    let window_s = seen.window_ns() as f64 * 1e-9;
    let chance = 4.0 * (more * window_s).sqrt() / window_s.max(f64::MIN_POSITIVE);
    (before - now).abs() > SHIFT * more + chance
}
