//! The estimated cost of a plan: load of each core, penalties of flows between cores, waiting.
//!
//! An estimate that ranks plans, from measured rates, costs and penalties. A trial measures the
//! real gain. An event that is posted to a handler on another core pays that handler's penalty at
//! the distance of the two cores. A handler on several cores spreads evenly over these cores. A
//! free handler follows its colors, so the load spreads over all cores and the penalties are part
//! of the measured time. Tested in `plan/tests.rs`.

use vermeil_topology::CAPACITY_MAX;

use super::Plan;
use crate::cost::CostTable;
use crate::flow::{Flow, FlowGraph};
use crate::{CoreIndex, Distance, HandlerIndex, Layout, Placement};

/// The load beyond which the estimated waiting grows linearly instead of to infinity, because there
/// a slightly high estimate must not outweigh everything. At 0.95, M/M/1 waits 19 times the service
/// time.
const LOAD_KNEE: f64 = 0.95;

/// Weight of the mean load beside the busiest core's load, for throughput: enough to choose the
/// cheaper of two plans with equally busy cores, not enough to trade balance for less work. Half or
/// twice as much changes the served load by 0.1 % at most, in 20 loads of `control/tests/world.rs`.
const MEAN_WEIGHT: f64 = 0.05;

/// The load of a handler.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HandlerLoad {
    /// Events per second.
    pub events_per_s: f64,
    /// Time of a warm run in nanoseconds.
    pub cost_ns: f64,
    /// Extra time after a move, by class of distance.
    pub penalty_ns: [f64; Distance::CLASSES],
}

/// The criterion for plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// The load saturates the cores, so the busiest core limits the throughput.
    Throughput,
    /// The cores have spare time, so the time of an event, including waiting, counts.
    Delay,
}

/// The assumption about an unknown penalty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PenaltyTrust {
    /// The upper bound: no promise relies on an unknown value.
    Cautious,
    /// No more than the known lower bound, because a handler that never moves far never reveals the
    /// penalty.
    Hopeful,
}

/// The load and the machine, prepared for estimates.
#[derive(Clone, Debug)]
pub struct PlanModel<'a> {
    layout: &'a Layout,
    handlers: Vec<HandlerLoad>,
    /// Posts between handlers, in posts per second.
    flows: Vec<(HandlerIndex, HandlerIndex, f64)>,
}

/// The estimate of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forecast {
    /// By core: seconds of work per second; above 1 the core is overloaded.
    pub loads: Vec<f64>,
    /// The largest load.
    pub busiest: f64,
    /// Penalties of all cores, in seconds per second; included in the loads.
    pub penalties: f64,
    /// Mean time of an event from its post to the end of its run, in nanoseconds.
    pub sojourn_ns: f64,
}

impl Forecast {
    /// The figure to minimise.
    pub fn cost(&self, objective: Objective) -> f64 {
        match objective {
            Objective::Throughput => {
                let mean = self.loads.iter().sum::<f64>() / self.loads.len().max(1) as f64;
                self.busiest + MEAN_WEIGHT * mean
            }
            Objective::Delay => self.sojourn_ns,
        }
    }

    /// The gain over `other`: 0.25 if a quarter more is served, or a quarter faster. Negative for a
    /// loss.
    pub fn gain_over(&self, other: &Self, objective: Objective) -> f64 {
        let now = self.cost(objective);
        if now > 0.0 { other.cost(objective) / now - 1.0 } else { 0.0 }
    }
}

impl<'a> PlanModel<'a> {
    /// A model of these handlers, by index, and of the flows between them, in posts per second.
    pub fn new(
        layout: &'a Layout,
        handlers: Vec<HandlerLoad>,
        flows: impl IntoIterator<Item = Flow>,
    ) -> Self {
        let known = |handler: HandlerIndex| (handler.0 as usize) < handlers.len();
        let between = |flow: Flow| flow.from.map(|from| (from, flow.to, flow.posts));
        let flows =
            flows.into_iter().filter_map(between).filter(|&(from, to, _)| known(from) && known(to)).collect();
        Self { layout, handlers, flows }
    }

    /// A model of learned data; `events_per_s` by handler.
    pub fn learned(
        layout: &'a Layout,
        costs: &CostTable,
        graph: &FlowGraph,
        events_per_s: &[f64],
        trust: PenaltyTrust,
    ) -> Self {
        let penalty = |handler, distance| match trust {
            PenaltyTrust::Cautious => costs.penalty_ns(handler, distance),
            PenaltyTrust::Hopeful => costs.penalty_lower_ns(handler, distance),
        };
        let load = |(index, &events_per_s): (usize, &f64)| {
            let handler = HandlerIndex(index as u32);
            HandlerLoad {
                events_per_s,
                cost_ns: costs.estimate_ns(handler) as f64,
                penalty_ns: std::array::from_fn(|class| penalty(handler, Distance::of_class(class)) as f64),
            }
        };
        let handlers = events_per_s.iter().take(costs.len()).enumerate().map(load).collect();
        Self::new(layout, handlers, graph.flows())
    }

    /// The same model with these warm times, in nanoseconds by handler, except zeros, because
    /// counters are more exact than means that cap outliers.
    #[must_use]
    pub fn with_costs(mut self, cost_ns: &[f64]) -> Self {
        for (handler, &cost_ns) in
            self.handlers.iter_mut().zip(cost_ns).filter(|(_, cost_ns)| **cost_ns > 0.0)
        {
            handler.cost_ns = cost_ns;
        }
        self
    }

    /// The same model with an overhead: the cores are busy longer than the handlers run, by this
    /// factor.
    #[must_use]
    pub fn with_overhead(mut self, factor: f64) -> Self {
        for handler in &mut self.handlers {
            handler.cost_ns *= factor;
        }
        self
    }

    /// The machine.
    pub fn layout(&self) -> &Layout {
        self.layout
    }

    /// The handlers, by index.
    pub fn handlers(&self) -> &[HandlerLoad] {
        &self.handlers
    }

    /// The estimate of this plan.
    pub fn forecast(&self, plan: &Plan) -> Forecast {
        let mut loads = vec![0.0; self.layout.cores()];
        for (index, handler) in self.handlers.iter().enumerate() {
            let seconds = handler.events_per_s * handler.cost_ns * 1e-9;
            self.spread(plan.of(HandlerIndex(index as u32)), seconds, &mut loads);
        }
        let before: f64 = loads.iter().sum();
        for &(from, to, per_s) in &self.flows {
            self.charge(plan.of(from), plan.of(to), to, per_s, &mut loads);
        }
        let penalties = loads.iter().sum::<f64>() - before;
        for (core, load) in self.layout.indices().zip(&mut loads) {
            *load *= f64::from(CAPACITY_MAX) / f64::from(self.layout.capacity(core));
        }
        self.of_loads(loads, penalties)
    }

    /// The forecast for measured busy times of the cores, in seconds per second.
    pub fn observed(&self, busy_s: &[f64]) -> Forecast {
        self.of_loads(busy_s.to_vec(), 0.0)
    }

    fn of_loads(&self, loads: Vec<f64>, penalties: f64) -> Forecast {
        let busiest = loads.iter().copied().fold(0.0, f64::max);
        Forecast { sojourn_ns: self.sojourn_ns(&loads), loads, busiest, penalties }
    }

    fn spread(&self, placement: &Placement, seconds: f64, loads: &mut [f64]) {
        match placement {
            Placement::Core(core) => loads[core.0 as usize] += seconds,
            Placement::Cores(cores) => {
                let share = seconds / cores.len() as f64;
                cores.iter().for_each(|core| loads[core.0 as usize] += share);
            }
            Placement::Any => {
                let share = seconds / loads.len() as f64;
                loads.iter_mut().for_each(|load| *load += share);
            }
        }
    }

    /// Adds the penalties of a flow to the cores that pay them.
    fn charge(&self, from: &Placement, to: &Placement, handler: HandlerIndex, per_s: f64, loads: &mut [f64]) {
        let penalty_ns = &self.handlers[handler.0 as usize].penalty_ns;
        let seconds = |a: CoreIndex, b| per_s * penalty_ns[self.layout.distance(a, b).class()] * 1e-9;
        match (from, to) {
            (Placement::Any, _) | (_, Placement::Any) => {}
            (Placement::Core(a), Placement::Core(b)) => loads[b.0 as usize] += seconds(*a, *b),
            _ => {
                let (posters, runners) = (cores_of(from), cores_of(to));
                let share = 1.0 / (posters.len() * runners.len()) as f64;
                for &b in &runners {
                    loads[b.0 as usize] += posters.iter().map(|&a| share * seconds(a, b)).sum::<f64>();
                }
            }
        }
    }

    /// Little's law: the number of events in the system, waiting or running (M/M/1 at each core),
    /// over the arrival rate.
    fn sojourn_ns(&self, loads: &[f64]) -> f64 {
        let events_per_s: f64 = self.handlers.iter().map(|handler| handler.events_per_s).sum();
        let inside: f64 = loads.iter().copied().map(in_system).sum();
        if events_per_s > 0.0 { inside / events_per_s * 1e9 } else { 0.0 }
    }
}

/// Mean number of events at a core of this load.
fn in_system(load: f64) -> f64 {
    let below = load.min(LOAD_KNEE);
    let beyond = (load - LOAD_KNEE).max(0.0);
    below / (1.0 - below) + beyond / (1.0 - LOAD_KNEE).powi(2)
}

fn cores_of(placement: &Placement) -> Vec<CoreIndex> {
    match placement {
        Placement::Any => Vec::new(),
        Placement::Core(core) => vec![*core],
        Placement::Cores(cores) => cores.iter().collect(),
    }
}
