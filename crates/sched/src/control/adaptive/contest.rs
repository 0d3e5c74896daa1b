//! A contest: the plan that is and a challenger in turns, until one of them is proven.
//!
//! Each turn is a short time to settle after the moves and a measured epoch. Owns the turns, the figure that is compared and
//! the charge to the regret account. Leaves out the statistics (`paired.rs`) and when contests are held (`adaptive.rs`).
//! Tested in `control/adaptive/tests.rs`.

use super::super::{HandlerWindow, Observation, Why};
use super::paired::{Paired, Verdict};
use crate::Budget;
use crate::plan::{Objective, Plan};

/// Time after a change of plan that is not compared, in nanoseconds: moved handlers' data come to their new caches. At 10 GB/s
/// this loads 20 MB. Guess.
const SETTLE_NS: u64 = 2_000_000;

/// The shortest measured epoch, in nanoseconds: five pairs of turns fit into 100 ms with the time to settle.
const EPOCH_MIN_NS: u64 = 6_000_000;

/// The longest one. Where events are so rare that this does not see [`EPOCH_EVENTS`], placement is not what matters.
const EPOCH_MAX_NS: u64 = 500_000_000;

/// Events an epoch should see. The figures compared do not suffer from the event that the end cuts off, so that these few are
/// enough; with many more, handlers of a millisecond would take longer than 200 ms to settle.
const EPOCH_EVENTS: f64 = 24.0;

/// Fewer than this many events are no measurement.
const EVENTS_MIN: u64 = 8;

/// Rounds to wait until moves are carried out, beyond which others are taken to have moved handlers. At 2 ms each, more than
/// the longest event that placement is meant for.
const SETTLE_ROUNDS_MAX: u32 = 100;

/// By how much the plan that is may differ from itself in its turns before the load has changed: a quarter.
const SHIFT: f64 = 0.25;

/// What share of the work of the plan that is a challenger must at least serve to be judged by the idle time it leaves: less
/// is no chance. Guess.
const SERVES_LESS: f64 = 0.9;

/// The turns of a contest.
#[derive(Debug)]
pub(super) struct Contest {
    pub(super) incumbent: Plan,
    pub(super) challenger: Plan,
    pub(super) predicted: f64,
    objective: Objective,
    /// What an event of each handler is worth, in nanoseconds.
    event_ns: Vec<f64>,
    bar: f64,
    epoch_ns: u64,
    turn: Turn,
    paired: Paired,
    /// Useful work in the last turn of the plan that is, in cores.
    work: f64,
    /// Events from outside in the last turn of the plan that is, in events a second.
    arrivals: Option<f64>,
    /// Taken from the account for the turn that runs, in nanoseconds.
    reserved_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Turn {
    Settle(Side, u32),
    Measure(Side),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Incumbent,
    Challenger,
}

/// How a contest goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Next {
    /// Handlers should stand as [`Contest::standing`] says.
    On,
    /// The challenger has won, by this share.
    Won(f64),
    /// It has not.
    Lost(f64),
    /// No verdict.
    Off(Why),
}

impl Contest {
    /// A contest that begins with the plan that is. `event_ns`: what an event of each handler is worth; `bar`: by which
    /// share the challenger must be better; `events_per_s`: how many events there are to see.
    pub(super) fn new(
        [incumbent, challenger]: [Plan; 2],
        predicted: f64,
        objective: Objective,
        event_ns: Vec<f64>,
        bar: f64,
        events_per_s: f64,
    ) -> Self {
        let epoch_ns = (EPOCH_EVENTS / events_per_s.max(1.0) * 1e9) as u64;
        Self {
            incumbent,
            challenger,
            predicted,
            objective,
            event_ns,
            bar,
            epoch_ns: epoch_ns.clamp(EPOCH_MIN_NS, EPOCH_MAX_NS),
            turn: Turn::Measure(Side::Incumbent),
            paired: Paired::default(),
            work: 0.0,
            arrivals: None,
            reserved_ns: 0,
        }
    }

    /// What a turn of the challenger may cost at most, in nanoseconds: everything from its moves until they are undone.
    pub(super) fn price_ns(&self) -> u64 {
        self.epoch_ns + 2 * SETTLE_NS
    }

    /// How long the running part lasts, in nanoseconds.
    pub(super) fn next_round_ns(&self) -> u64 {
        match self.turn {
            Turn::Settle(..) => SETTLE_NS,
            Turn::Measure(_) => self.epoch_ns,
        }
    }

    /// Complete pairs.
    pub(super) fn pairs(&self) -> usize {
        self.paired.pairs()
    }

    /// Whose turn it is.
    pub(super) fn standing(&self) -> &Plan {
        match self.turn {
            Turn::Settle(Side::Incumbent, _) | Turn::Measure(Side::Incumbent) => &self.incumbent,
            Turn::Settle(Side::Challenger, _) | Turn::Measure(Side::Challenger) => &self.challenger,
        }
    }

    /// A part of a turn has ended.
    pub(super) fn step(&mut self, seen: &Observation, regret: &mut Budget) -> Next {
        let figure = self.figure(seen);
        match self.turn {
            Turn::Settle(side, rounds) => self.settled(side, rounds, figure, seen, regret),
            Turn::Measure(_) if seen.events() < EVENTS_MIN => Next::Off(Why::Idle),
            Turn::Measure(Side::Incumbent) => self.measured_incumbent(figure, seen, regret),
            Turn::Measure(Side::Challenger) => self.measured_challenger(figure, regret),
        }
    }

    fn settled(
        &mut self,
        side: Side,
        rounds: u32,
        figure: f64,
        seen: &Observation,
        regret: &mut Budget,
    ) -> Next {
        self.charge(SETTLE_NS, figure, regret);
        let arrived = seen.placed.moves_to(self.standing()).is_empty();
        self.turn = match arrived {
            true => Turn::Measure(side),
            false if rounds == SETTLE_ROUNDS_MAX => return Next::Off(Why::PlacementChanged),
            false => Turn::Settle(side, rounds + 1),
        };
        Next::On
    }

    fn measured_incumbent(&mut self, figure: f64, seen: &Observation, regret: &mut Budget) -> Next {
        self.paired.push_a(figure);
        self.work = self.work(seen);
        let arrivals = arrivals(seen);
        let before = self.arrivals.replace(arrivals);
        let uneven = |(a, b): (f64, f64)| (a - b).abs() > SHIFT * a.max(b);
        if self.paired.last_as().is_some_and(uneven)
            || before.is_some_and(|before| other_rate(before, arrivals, seen))
        {
            return Next::Off(Why::LoadShifted);
        }
        match self.paired.verdict(self.bar) {
            Verdict::Better(gain) => return Next::Won(gain),
            Verdict::NotBetter(gain) => return Next::Lost(gain),
            Verdict::Open => {}
        }
        if !regret.spend(self.price_ns()) {
            return Next::Off(Why::RegretSpent);
        }
        self.reserved_ns = self.price_ns();
        self.turn = Turn::Settle(Side::Challenger, 0);
        Next::On
    }

    fn measured_challenger(&mut self, figure: f64, regret: &mut Budget) -> Next {
        self.paired.push_b(figure);
        self.charge(self.epoch_ns, figure, regret);
        self.turn = Turn::Settle(Side::Incumbent, 0);
        match self.paired.verdict(self.bar) {
            Verdict::NotBetter(gain) => Next::Lost(gain),
            Verdict::Better(_) | Verdict::Open => Next::On,
        }
    }

    /// Of the time reserved for this part, what was not lost against the plan that is goes back.
    fn charge(&mut self, part_ns: u64, figure: f64, regret: &mut Budget) {
        let part_ns = part_ns.min(self.reserved_ns);
        self.reserved_ns -= part_ns;
        let kept = (figure / self.paired.last_a().max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        regret.refund((part_ns as f64 * kept) as u64);
    }

    /// What is compared; more is better. Where throughput counts: what the cores could serve, that is useful work per time
    /// over the busiest core's share of busy time; if the challenger serves clearly less, just that, however idle it
    /// leaves the cores. Where delay counts: the inverse of an event's time in the system, by Little's law.
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

    /// Useful work in cores: the share of run time that is useful, times the busy time, since both come without the error of
    /// the event that the window's end cuts off.
    fn work(&self, seen: &Observation) -> f64 {
        let worth = |(window, &event_ns): (&HandlerWindow, &f64)| window.events as f64 * event_ns;
        let useful: f64 = seen.handlers.iter().zip(&self.event_ns).map(worth).sum();
        let run_ns: u64 = seen.cores.iter().map(|core| core.run_ns).sum();
        useful / run_ns.max(1) as f64 * seen.busy_cores()
    }
}

/// Events a second that came from outside.
fn arrivals(seen: &Observation) -> f64 {
    let outside = seen.flows.flows().filter(|flow| flow.from.is_none());
    outside.map(|flow| flow.posts).sum::<f64>() * 1e9 / seen.window_ns().max(1) as f64
}

/// Whether two rates differ by more than a quarter and more than chance: four deviations of a Poisson count.
fn other_rate(before: f64, now: f64, seen: &Observation) -> bool {
    let more = before.max(now);
    let window_s = seen.window_ns() as f64 * 1e-9;
    let chance = 4.0 * (more * window_s).sqrt() / window_s.max(f64::MIN_POSITIVE);
    (before - now).abs() > SHIFT * more + chance
}
