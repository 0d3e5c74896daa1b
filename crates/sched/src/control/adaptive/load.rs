//! The recent load: rates, costs and flows, and whether the load is still the same.
//!
//! Rates and costs come from counters, because counters miss no event, while the learned means cap
//! outliers. Penalties are the learned penalties. Tested in `control/adaptive/tests.rs`.

use std::collections::BTreeMap;

use super::super::Observation;
use crate::cost::CostTable;
use crate::flow::FlowGraph;
use crate::plan::{Objective, PenaltyTrust, PlanModel};
use crate::{HandlerIndex, Layout};

/// Age at which a rate has half the weight of a new rate, in nanoseconds. As in `flow.rs`.
const MEMORY_NS: f64 = 60e6;

/// The busiest core's share of busy time from which the load counts as saturating: cores that
/// steal and search are never wholly busy. In `control/tests/world.rs`, at 0.8 a load of 85 %
/// settles in half the time, and at 0.95 a load of 95 % settles in one and a half times the time.
const SATURATED: f64 = 0.9;

/// The share of the work, or of the posts, that must shift to other handlers for the load to count
/// as changed: ten times the difference between two windows of the same load.
const SHARES_SHIFTED: f64 = 0.2;

/// The factor by which the rate of events must change for the load to count as changed.
/// In 20 loads of `control/tests/world.rs`, 1.25 and 2 change the served load by 0.9 % at most.
const RATE_SHIFTED: f64 = 1.5;

/// Smoothed counters.
#[derive(Clone, Debug, Default)]
pub(super) struct SmoothedLoad {
    events_per_s: Vec<f64>,
    /// Warm time of handlers, in seconds per second.
    warm_s: Vec<f64>,
    graph: FlowGraph,
    /// Busy time of cores, in seconds per second: warm and cold runs, and the overhead of running
    /// events.
    busy_s: Vec<f64>,
    /// The part of the busy time that all cores spend in handlers.
    run_s: f64,
    busiest: f64,
    /// Events behind these figures.
    events: u64,
}

/// The characteristics of a load.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LoadProfile {
    /// Work by handler, as shares of all work.
    shares: Vec<f64>,
    /// Posts by poster and handler, as shares of all posts.
    flows: BTreeMap<(Option<HandlerIndex>, HandlerIndex), f64>,
    events_per_s: f64,
}

impl SmoothedLoad {
    /// Adds a window; a window without events fades the former data.
    pub(super) fn absorb(&mut self, seen: &Observation) {
        let window_ns = seen.window_ns() as f64;
        if window_ns == 0.0 {
            return;
        }
        let weight = if self.events == 0 { 1.0 } else { window_ns / (window_ns + MEMORY_NS) };
        let handlers = seen.handlers.len().max(self.warm_s.len());
        self.events_per_s.resize(handlers, 0.0);
        self.warm_s.resize(handlers, 0.0);
        for (index, window) in seen.handlers.iter().enumerate() {
            let warm_ns = window.run_ns.saturating_sub(window.cold_ns) as f64;
            blend(&mut self.events_per_s[index], window.events as f64 * 1e9 / window_ns, weight);
            blend(&mut self.warm_s[index], warm_ns / window_ns, weight);
        }
        self.busy_s.resize(seen.cores.len(), 0.0);
        for (busy_s, core) in self.busy_s.iter_mut().zip(&seen.cores) {
            blend(busy_s, core.busy(), weight);
        }
        let run_ns: u64 = seen.handlers.iter().map(|window| window.run_ns).sum();
        blend(&mut self.run_s, run_ns as f64 / window_ns, weight);
        blend(&mut self.busiest, seen.busiest(), weight);
        self.graph.absorb(&seen.flows, seen.window_ns());
        self.events += seen.events();
    }

    /// Events since the last start.
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    /// Events per second of all handlers.
    pub(super) fn rate(&self) -> f64 {
        self.events_per_s.iter().sum()
    }

    /// The objective under this load.
    pub(super) fn objective(&self) -> Objective {
        if self.busiest >= SATURATED { Objective::Throughput } else { Objective::Delay }
    }

    /// The flow graph.
    pub(super) fn graph(&self) -> &FlowGraph {
        &self.graph
    }

    /// Warm time of a run by handler, in nanoseconds: the worth of an event.
    pub(super) fn event_ns(&self) -> Vec<f64> {
        let each = self.events_per_s.iter().zip(&self.warm_s);
        each.map(|(&rate, &warm_s)| if rate > 0.0 { warm_s / rate * 1e9 } else { 0.0 }).collect()
    }

    /// The model that ranks plans.
    pub(super) fn model<'a>(
        &self,
        layout: &'a Layout,
        costs: &CostTable,
        trust: PenaltyTrust,
    ) -> PlanModel<'a> {
        PlanModel::learned(layout, costs, &self.graph, &self.events_per_s, trust)
            .with_costs(&self.event_ns())
            .with_overhead(self.overhead())
    }

    /// Ratio of the cores' busy time to the time in handlers. Every plan pays this overhead.
    fn overhead(&self) -> f64 {
        let busy_s: f64 = self.busy_s.iter().sum();
        if self.run_s > 0.0 { (busy_s / self.run_s).max(1.0) } else { 1.0 }
    }

    /// Busy time by core, in seconds per second.
    pub(super) fn busy_s(&self) -> &[f64] {
        &self.busy_s
    }

    /// The characteristics of this load.
    pub(super) fn profile(&self) -> LoadProfile {
        let all: f64 = self.warm_s.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let posts: f64 = self.graph.flows().map(|flow| flow.posts).sum::<f64>().max(f64::MIN_POSITIVE);
        LoadProfile {
            shares: self.warm_s.iter().map(|work| work / all).collect(),
            flows: self.graph.flows().map(|flow| ((flow.from, flow.to), flow.posts / posts)).collect(),
            events_per_s: self.rate(),
        }
    }
}

impl LoadProfile {
    /// Whether `now` is a different load: other handlers work, other handlers post to each other,
    /// or the rate differs.
    pub(super) fn shifted(&self, now: &Self) -> bool {
        let share = |profile: &Self, handler| profile.shares.get(handler).copied().unwrap_or(0.0);
        let handlers = self.shares.len().max(now.shares.len());
        let worked: f64 =
            (0..handlers).map(|handler| (share(self, handler) - share(now, handler)).abs()).sum();
        let gone = self.flows.iter().map(|(flow, share)| (share - now.flow(flow)).max(0.0)).sum::<f64>();
        let (less, more) = (self.events_per_s.min(now.events_per_s), self.events_per_s.max(now.events_per_s));
        worked / 2.0 > SHARES_SHIFTED || gone > SHARES_SHIFTED || more > RATE_SHIFTED * less
    }

    fn flow(&self, flow: &(Option<HandlerIndex>, HandlerIndex)) -> f64 {
        self.flows.get(flow).copied().unwrap_or(0.0)
    }
}

fn blend(figure: &mut f64, now: f64, weight: f64) {
    *figure += weight * (now - *figure);
}
