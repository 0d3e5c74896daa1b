//! Controllers: what the cores were seen to do goes in, which handlers move where comes out.
//!
//! Owns the observation and the interface. A controller is called once a round, says when the next one is due, and knows no
//! clock but the one it is told. [`Fixed`] keeps a plan, [`Trial`] tries plans in turn, [`Adaptive`] predicts, tries and keeps
//! what pays. Leaves out how observations are collected (`control/monitor.rs`) and how moves are carried out
//! (`control/redistribute.rs`). Tested in `control/tests.rs`, on invented worlds and invented time.

use std::fmt;

use crate::cost::CostTable;
use crate::flow::FlowCounts;
use crate::plan::{Move, Plan, Rules};
use crate::{CoreIndex, HandlerIndex};

mod adaptive;
mod log;
mod monitor;
mod redistribute;
#[cfg(test)]
mod tests;
mod trial;
mod window;

pub use adaptive::Adaptive;
pub use log::{DECISIONS_MAX, Decision, DecisionLog, Event, Why};
pub use monitor::{Answer, Monitor};
pub use redistribute::{Custody, Effect, Envelope, Message, Order, Redistribution};
pub use trial::{Candidates, Trial, TrialOptions};
pub use window::Window;

/// What one core did in a window, or all of them together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreWindow {
    /// Length of the window in nanoseconds, by the core's own clock reads.
    pub window_ns: u64,
    /// Events it ran.
    pub events: u64,
    /// Time it spent in handlers.
    pub run_ns: u64,
    /// The part of `run_ns` that cold runs took beyond their handlers' warm time.
    pub cold_ns: u64,
    /// Time it had nothing to run: parked, or looking for work.
    pub idle_ns: u64,
    /// Cache misses, where the machine counts them.
    pub misses: Option<u64>,
    /// Events that waited for it at the end of the window.
    pub queued: u64,
}

/// What the runs of one handler came to in a window, on one core or on all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandlerWindow {
    /// Events it ran.
    pub events: u64,
    /// Time they took.
    pub run_ns: u64,
    /// The part of `run_ns` that cold runs took beyond the warm time.
    pub cold_ns: u64,
    /// Its events that waited at the end of the window.
    pub queued: u64,
}

/// All cores in one window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// By core.
    pub cores: Vec<CoreWindow>,
    /// By handler, summed over the cores.
    pub handlers: Vec<HandlerWindow>,
    /// Posts, summed over the cores.
    pub flows: FlowCounts,
    /// Costs and penalties, merged from the cores' tables.
    pub costs: CostTable,
    /// Where the handlers stand now.
    pub placed: Plan,
}

impl Observation {
    /// The mean length of the cores' windows, in nanoseconds.
    pub fn window_ns(&self) -> u64 {
        let sum: u64 = self.cores.iter().map(|core| core.window_ns).sum();
        sum / self.cores.len().max(1) as u64
    }

    /// Events that all cores ran.
    pub fn events(&self) -> u64 {
        self.cores.iter().map(|core| core.events).sum()
    }

    /// The share of its time that the busiest core was not idle, from 0 to 1.
    pub fn busiest(&self) -> f64 {
        self.cores.iter().map(CoreWindow::busy).fold(0.0, f64::max)
    }

    /// Time of all cores that was not idle, in cores: 2.5 where two and a half cores were busy.
    pub fn busy_cores(&self) -> f64 {
        self.cores.iter().map(CoreWindow::busy).sum()
    }

    /// Events a second of a handler.
    pub fn rate(&self, handler: HandlerIndex) -> f64 {
        let events = self.handlers.get(handler.0 as usize).map_or(0, |window| window.events);
        events as f64 * 1e9 / self.window_ns().max(1) as f64
    }
}

impl CoreWindow {
    /// The share of the window in which the core was not idle, from 0 to 1.
    pub fn busy(&self) -> f64 {
        if self.window_ns == 0 {
            return 0.0;
        }
        1.0 - self.idle_ns.min(self.window_ns) as f64 / self.window_ns as f64
    }
}

/// Places handlers while the runtime runs.
pub trait Controller: Send + fmt::Debug {
    /// One round: the window since the last one goes in, moves come out. They are to be carried out at once; how far that has
    /// come shows in the next observation's [`Observation::placed`].
    fn round(&mut self, now_ns: u64, seen: &Observation) -> Vec<Move>;

    /// How long after a round the next one is due, in nanoseconds; `None` if the controller needs no more.
    fn next_round_ns(&self) -> Option<u64>;

    /// Where handlers may stand from now on, whenever that changes: no plan is made that breaks a rule. Who gives a controller
    /// its plan, as [`Fixed`], sees to that.
    fn set_rules(&mut self, _rules: Rules) {}

    /// Where a handler begins that has just been registered; `None` leaves it to the policy.
    fn begin(&self, handler: HandlerIndex) -> Option<CoreIndex>;

    /// What was decided, and why.
    fn decisions(&self) -> &DecisionLog;

    /// Time that trials have lost so far, in nanoseconds of the whole machine, where that is measured and bounded.
    fn regret_ns(&self) -> Option<u64> {
        None
    }
}

/// Keeps a plan: `placed`.
#[derive(Debug, Default)]
pub struct Fixed {
    plan: Plan,
    log: DecisionLog,
}

impl Fixed {
    /// A controller that wants this plan and no other.
    pub fn new(plan: Plan) -> Self {
        Self { plan, log: DecisionLog::default() }
    }
}

impl Controller for Fixed {
    fn round(&mut self, now_ns: u64, seen: &Observation) -> Vec<Move> {
        let moves = seen.placed.moves_to(&self.plan);
        if !moves.is_empty() {
            self.log.push(now_ns, Event::Applied, &moves);
        }
        moves
    }

    fn next_round_ns(&self) -> Option<u64> {
        None
    }

    fn begin(&self, handler: HandlerIndex) -> Option<CoreIndex> {
        self.plan.core_of(handler)
    }

    fn decisions(&self) -> &DecisionLog {
        &self.log
    }
}
