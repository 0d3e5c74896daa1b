//! An invented machine and load, to run controllers on invented time.
//!
//! A fluid model: the true costs, the penalties and the current plan determine each core's load and
//! the rate of all flows. The model then derives the observations of cores and cost tables, with
//! noise from a seed. After moves everything runs at half speed for a millisecond. The model knows
//! the best plan and records all losses, so that tests can check the losses.

use crate::control::{Controller, CoreWindow, HandlerWindow, Observation};
use crate::cost::{CostHint, CostTable, RunSample};
use crate::flow::{Flow, FlowCounts};
use crate::plan::{Forecast, HandlerLoad, Move, Plan, PlanModel};
use crate::{Distance, HandlerIndex, Layout};

/// The arrival of load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LoadDemand {
    /// As fast as the cores serve the load.
    Saturated,
    /// Events per second at the first handler, up to the served rate.
    Open(f64),
}

pub(crate) struct ControlWorld {
    pub(crate) layout: Layout,
    pub(crate) handlers: Vec<HandlerLoad>,
    /// Posts for each event that enters.
    pub(crate) flows: Vec<(usize, usize)>,
    pub(crate) demand: LoadDemand,
    pub(crate) placed: Plan,
    pub(crate) noise_percent: u64,
    pub(crate) now_ns: u64,
    /// Whether the machine counts cache misses.
    pub(crate) counts_misses: bool,
    pub(crate) moves: usize,
    /// Under any other plan, everything runs at this share of the normal speed, for reasons that no
    /// model knows.
    pub(crate) hidden: Option<(Plan, f64)>,
    pub(crate) costs: CostTable,
    pub(crate) disturbed_ns: f64,
    pub(crate) state: u64,
    /// Fractions of events carried over to the next window.
    pub(crate) carried: Vec<f64>,
}

/// A window: its end, and the rate of entering events.
pub(crate) type Passed = (u64, f64);

const DISTURBANCE_NS: f64 = 1e6;
const MISS_NS: f64 = 60.0;

impl ControlWorld {
    /// A pipeline with a penalty of `penalty` costs per class of distance beyond SMT.
    pub(crate) fn pipeline(layout: Layout, costs_ns: &[f64], penalty: f64, placed: Plan, seed: u64) -> Self {
        let load = |&cost_ns: &f64| HandlerLoad {
            events_per_s: 1.0,
            cost_ns,
            penalty_ns: std::array::from_fn(|class| penalty * cost_ns * class.saturating_sub(1) as f64),
        };
        let mut costs = CostTable::new();
        costs_ns.iter().for_each(|_| {
            costs.register(CostHint::default());
        });
        Self {
            layout,
            handlers: costs_ns.iter().map(load).collect(),
            flows: (1..costs_ns.len()).map(|to| (to - 1, to)).collect(),
            demand: LoadDemand::Saturated,
            placed,
            noise_percent: 2,
            now_ns: 0,
            counts_misses: false,
            moves: 0,
            hidden: None,
            costs,
            disturbed_ns: 0.0,
            state: seed,
            carried: vec![0.0; costs_ns.len()],
        }
    }

    fn model(&self) -> PlanModel<'_> {
        let flow = |&(from, to): &(usize, usize)| Flow {
            from: Some(HandlerIndex(from as u32)),
            to: HandlerIndex(to as u32),
            posts: 1.0,
            bytes: 0.0,
        };
        PlanModel::new(&self.layout, self.handlers.clone(), self.flows.iter().map(flow))
    }

    /// The cost of one event per second under a plan.
    pub(crate) fn per_event(&self, plan: &Plan) -> Forecast {
        self.model().forecast(plan)
    }

    /// The rate that a plan can serve, in entering events per second.
    pub(crate) fn capacity(&self, plan: &Plan) -> f64 {
        1.0 / self.per_event(plan).busiest
    }

    /// From 1 - noise to 1 + noise.
    fn noise(&mut self) -> f64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (self.state >> 40) as f64 / (1_u64 << 24) as f64;
        1.0 + (2.0 * unit - 1.0) * self.noise_percent as f64 / 100.0
    }

    pub(crate) fn apply(&mut self, moves: &[Move]) {
        if !moves.is_empty() {
            self.disturbed_ns = DISTURBANCE_NS;
            self.moves += moves.len();
        }
        self.placed.apply(moves);
    }

    /// Lets time pass; returns the observation and the rate of entering events.
    pub(crate) fn advance(&mut self, window_ns: u64) -> (Observation, f64) {
        self.now_ns += window_ns;
        let forecast = self.per_event(&self.placed);
        let hidden = self.hidden.as_ref().filter(|(plan, _)| *plan != self.placed);
        let most = hidden.map_or(1.0, |(_, pace)| *pace) / forecast.busiest;
        let wanted = match self.demand {
            LoadDemand::Saturated => most,
            LoadDemand::Open(rate) => rate.min(most),
        };
        let disturbed_ns = self.disturbed_ns.min(window_ns as f64);
        self.disturbed_ns -= disturbed_ns;
        let pace = 1.0 - 0.5 * disturbed_ns / window_ns as f64;
        let rate = wanted * pace * self.noise();
        (self.observe(window_ns, rate, &forecast, wanted >= most), rate)
    }

    fn observe(&mut self, window_ns: u64, rate: f64, forecast: &Forecast, full: bool) -> Observation {
        let seconds = window_ns as f64 * 1e-9;
        let mut seen = Observation { placed: self.placed.clone(), ..Observation::default() };
        // Noise and hidden causes are time spent in handlers: under saturation, the busiest core
        // stays busy.
        let stretch = if full { 1.0 / (forecast.busiest * rate).max(f64::MIN_POSITIVE) } else { 1.0 };
        for &load in &forecast.loads {
            let busy = (load * rate * stretch).min(1.0);
            let idle_ns = ((1.0 - busy) * window_ns as f64) as u64;
            let queued = if full && busy > 0.8 { 100 } else { (busy / (1.001 - busy)) as u64 };
            seen.cores.push(CoreWindow { window_ns, idle_ns, queued, ..CoreWindow::default() });
        }
        let mut flows = FlowCounts::new();
        for index in 0..self.handlers.len() {
            let window = self.handler_window(index, rate * seconds, &mut flows);
            let core = self.placed.core_of(HandlerIndex(index as u32)).map_or(0, |core| core.0 as usize);
            let core = &mut seen.cores[core];
            core.events += window.events;
            core.run_ns += (window.run_ns as f64 * stretch) as u64;
            core.cold_ns += window.cold_ns;
            if self.counts_misses {
                *core.misses.get_or_insert(0) += (window.cold_ns as f64 / MISS_NS) as u64;
            }
            seen.handlers.push(window);
        }
        seen.flows = flows;
        seen.costs = self.costs.clone();
        seen
    }

    /// The window of a handler that gets `entered` of the events; also records learned costs and
    /// posts.
    fn handler_window(&mut self, index: usize, entered: f64, flows: &mut FlowCounts) -> HandlerWindow {
        let handler = HandlerIndex(index as u32);
        let due = entered + self.carried[index];
        let events = due as u64;
        self.carried[index] = due - events as f64;
        let distance = self.arrival_distance(index);
        let HandlerLoad { cost_ns, penalty_ns, .. } = self.handlers[index];
        let beyond_ns = penalty_ns[distance.class()];
        let cold = (distance != Distance::Same).then_some(distance);
        for _ in 0..events.min(16) {
            let run_ns = ((cost_ns + beyond_ns) * self.noise()) as u64;
            self.costs.observe(handler, RunSample { run_ns, cold, interrupted: false });
            // From time to time an event comes from a timer on the same core.
            self.costs.observe(handler, RunSample { run_ns: cost_ns as u64, cold: None, interrupted: false });
        }
        let from = self.flows.iter().find(|flow| flow.1 == index).map(|flow| HandlerIndex(flow.0 as u32));
        (0..events).for_each(|_| flows.record(from, handler, 0));
        HandlerWindow {
            events,
            run_ns: (events as f64 * (cost_ns + beyond_ns)) as u64,
            cold_ns: (events as f64 * beyond_ns) as u64,
            queued: 0,
        }
    }

    fn arrival_distance(&self, index: usize) -> Distance {
        let core = |handler: usize| self.placed.core_of(HandlerIndex(handler as u32));
        let from = self.flows.iter().find(|flow| flow.1 == index).and_then(|flow| core(flow.0));
        match (from, core(index)) {
            (Some(from), Some(to)) => self.layout.distance(from, to),
            _ => Distance::Same,
        }
    }

    /// Runs a controller for `for_ns`; returns the windows.
    pub(crate) fn run(&mut self, controller: &mut dyn Controller, for_ns: u64) -> Vec<Passed> {
        let end_ns = self.now_ns + for_ns;
        let mut passed = Vec::new();
        while let Some(window_ns) =
            controller.next_round_ns().filter(|window_ns| self.now_ns + window_ns <= end_ns)
        {
            let (seen, rate) = self.advance(window_ns);
            passed.push((self.now_ns, rate));
            let moves = controller.round(self.now_ns, &seen);
            self.apply(&moves);
        }
        passed
    }
}
