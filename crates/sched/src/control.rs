//! Controllers: an observation of the cores goes in, moves of handlers come out.
//!
//! Defines the observation and the interface. A controller is called once per round, gives the time
//! of the next round, and knows only the clock in its arguments. [`Fixed`] keeps a plan, [`Trial`]
//! tries plans in turn, [`Adaptive`] predicts, tries and keeps plans that pay. Leaves out the
//! collection of observations (`control/monitor.rs`) and the execution of moves
//! (`control/redistribute.rs`). Tested in `control/tests.rs`, on invented worlds and invented time.

use std::fmt;

use crate::cost::CostTable;
use crate::flow::FlowCounts;
use crate::plan::{Move, Plan, PlanRules};
use crate::{CoreIndex, HandlerIndex, Layout, Policy};

mod adaptive;
mod log;
mod monitor;
mod redistribute;
#[cfg(test)]
mod tests;
mod trial;
mod window;

pub use adaptive::Adaptive;
pub use log::{ControlEvent, DECISIONS_MAX, Decision, DecisionLog, Why};
pub use monitor::{Monitor, MonitorAnswer};
pub use redistribute::{CoreHoldings, Effect, Envelope, HandlerMove, MoveMessage, Redistribution};
pub use trial::{Candidates, Trial, TrialOptions};
pub use window::AnswerWindow;

/// Delay of the first round after the registration of a handler, in nanoseconds, because further
/// handlers usually follow at once.
pub const FIRST_ROUND_NS: u64 = 2_000_000;

/// The controller of a policy that places handlers; `None` for other policies. Under
/// [`Policy::Placed`] the controller moves nothing, because the caller has the plan.
pub fn controller(policy: &Policy, layout: &Layout, trial: TrialOptions) -> Option<Box<dyn Controller>> {
    Some(match policy {
        Policy::Placed(_) => Box::new(Fixed::default()),
        Policy::Trial => Box::new(Trial::new(Candidates::Named(layout.clone()), trial)),
        Policy::Adaptive => Box::new(Adaptive::new(layout.clone(), PlanRules::new())),
        Policy::None
        | Policy::Libasync
        | Policy::Mely
        | Policy::NCopy
        | Policy::PerNode
        | Policy::Scatter => return None,
    })
}

/// The activity of a core in a window, or of all cores together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreWindow {
    /// Length of the window in nanoseconds, by the core's own clock reads.
    pub window_ns: u64,
    /// Events that ran.
    pub events: u64,
    /// Time spent in handlers.
    pub run_ns: u64,
    /// The part of `run_ns` that cold runs took beyond the warm time of their handlers.
    pub cold_ns: u64,
    /// Time without work: parked, or searching for work.
    pub idle_ns: u64,
    /// Cache misses, if the machine counts cache misses.
    pub misses: Option<u64>,
    /// Events that waited at the end of the window.
    pub queued: u64,
}

/// The runs of a handler in a window, on a core or on all cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandlerWindow {
    /// Events that ran.
    pub events: u64,
    /// Run time of these events.
    pub run_ns: u64,
    /// The part of `run_ns` that cold runs took beyond the warm time.
    pub cold_ns: u64,
    /// Events of the handler that waited at the end of the window.
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
    /// The current placement of the handlers.
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

    /// Busy time of all cores, in cores: 2.5 if two and a half cores were busy.
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
    /// Runs a round: the window since the last round goes in, moves come out. The caller must carry
    /// out the moves at once. The next observation's [`Observation::placed`] shows the progress of
    /// the moves.
    fn round(&mut self, now_ns: u64, seen: &Observation) -> Vec<Move>;

    /// Time until the next round, in nanoseconds; `None` if the controller needs no further round.
    fn next_round_ns(&self) -> Option<u64>;

    /// Sets the rules for placements, at each change: no plan may break a rule. A controller with a
    /// given plan, such as [`Fixed`], leaves this to the author of the plan.
    fn set_rules(&mut self, _rules: PlanRules) {}

    /// The core of a newly registered handler; `None` leaves the choice to the policy.
    fn begin(&self, handler: HandlerIndex) -> Option<CoreIndex>;

    /// The decisions so far, with reasons.
    fn decisions(&self) -> &DecisionLog;

    /// Time that trials have lost so far, in nanoseconds of the whole machine, if the loss is
    /// measured and bounded.
    fn regret_ns(&self) -> Option<u64> {
        None
    }
}

/// Keeps a given plan: policy `placed`.
#[derive(Debug, Default)]
pub struct Fixed {
    plan: Plan,
    log: DecisionLog,
}

impl Fixed {
    /// A controller that keeps `plan`.
    pub fn new(plan: Plan) -> Self {
        Self { plan, log: DecisionLog::default() }
    }
}

impl Controller for Fixed {
    fn round(&mut self, now_ns: u64, seen: &Observation) -> Vec<Move> {
        let moves = seen.placed.moves_to(&self.plan);
        if !moves.is_empty() {
            self.log.push(now_ns, ControlEvent::Applied, &moves);
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
