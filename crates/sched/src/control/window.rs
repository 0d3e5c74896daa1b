//! The counters of a core between two answers to the monitor, shared by threads and simulated
//! cores.
//!
//! Contains the sums and the costs learned from them. Leaves out the time and the recipient of an
//! answer (`control/monitor.rs`). Tested below.

use super::{CoreWindow, HandlerWindow, MonitorAnswer};
use crate::cost::CostTable;
use crate::flow::FlowCounts;
use crate::{CostHint, Distance, HandlerIndex, RunSample};

/// The counters of a core since the core's last answer.
#[derive(Debug, Default)]
pub struct AnswerWindow {
    answered: u64,
    since_ns: u64,
    core: CoreWindow,
    handlers: Vec<HandlerWindow>,
    flows: FlowCounts,
    costs: CostTable,
}

impl AnswerWindow {
    /// Counts an event of a unit that has run; `sample` if the run was timed.
    pub fn ran(&mut self, unit: HandlerIndex, sample: Option<RunSample>) {
        let at = unit.0 as usize;
        while self.costs.len() <= at {
            self.costs.register(CostHint::default());
            self.handlers.push(HandlerWindow::default());
        }
        let warm_ns = self.costs.estimate_ns(unit);
        if let Some(sample) = sample {
            self.costs.observe(unit, sample);
        }
        let timed = sample.filter(|sample| !sample.interrupted);
        let run_ns = timed.map_or(warm_ns, |sample| sample.run_ns);
        let cold = timed.is_some_and(|sample| sample.cold.is_some());
        let cold_ns = if cold { run_ns.saturating_sub(warm_ns) } else { 0 };
        let handler = &mut self.handlers[at];
        handler.events += 1;
        handler.run_ns += run_ns;
        handler.cold_ns += cold_ns;
        self.core.events += 1;
        self.core.run_ns += run_ns;
        self.core.cold_ns += cold_ns;
    }

    /// Counts a post to a unit, from a unit on this core or from outside.
    pub fn posted(&mut self, from: Option<HandlerIndex>, unit: HandlerIndex) {
        self.flows.record(from, unit, 0);
    }

    /// Counts idle time.
    pub fn idled(&mut self, ns: u64) {
        self.core.idle_ns += ns;
    }

    /// Counts the cache misses of a run that [`AnswerWindow::ran`] has counted; `cold` as in
    /// [`RunSample`].
    pub fn run_missed(&mut self, unit: HandlerIndex, cold: Option<Distance>, lines: u64) {
        self.costs.observe_misses(unit, cold, lines);
    }

    /// Counts the cache misses of the core, if there is a counter.
    pub fn missed(&mut self, lines: u64) {
        *self.core.misses.get_or_insert(0) += lines;
    }

    /// The last answered round; 0 before the first.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// The answer to `round`: all counts since the last answer, with `queued` waiting events.
    /// Resets the counters.
    pub fn answer(&mut self, round: u64, now_ns: u64, queued: u64) -> MonitorAnswer {
        self.answered = round;
        let window_ns = now_ns.saturating_sub(std::mem::replace(&mut self.since_ns, now_ns));
        let answer = MonitorAnswer {
            core: CoreWindow { window_ns, queued, ..std::mem::take(&mut self.core) },
            handlers: self.handlers.clone(),
            flows: self.flows.clone(),
            costs: self.costs.clone(),
        };
        self.handlers.fill(HandlerWindow::default());
        self.flows.clear();
        self.costs.fade();
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: HandlerIndex = HandlerIndex(1);

    fn sample(run_ns: u64, cold: Option<Distance>) -> Option<RunSample> {
        Some(RunSample { run_ns, cold, interrupted: false })
    }

    #[test]
    fn untimed_run_counts_as_estimate_and_cold_run_exceeds() {
        let mut window = AnswerWindow::default();
        (0..20).for_each(|_| window.ran(UNIT, sample(1_000, None)));
        window.ran(UNIT, None);
        window.ran(UNIT, sample(1_600, Some(Distance::L3)));
        window.idled(300);
        window.missed(7);
        let answer = window.answer(3, 50_000, 4);
        assert_eq!((answer.core.events, answer.core.run_ns, answer.core.cold_ns), (22, 22_600, 600));
        assert_eq!((answer.core.window_ns, answer.core.idle_ns, answer.core.queued), (50_000, 300, 4));
        assert_eq!((answer.core.misses, window.answered()), (Some(7), 3));
        assert_eq!(answer.handlers[1].events, 22);
    }

    #[test]
    fn an_interrupted_run_counts_as_its_estimate() {
        let mut window = AnswerWindow::default();
        (0..20).for_each(|_| window.ran(UNIT, sample(1_000, None)));
        for cold in [None, Some(Distance::L3)] {
            window.ran(UNIT, Some(RunSample { run_ns: 3_000_000, cold, interrupted: true }));
        }
        window.run_missed(UNIT, None, 12);
        let answer = window.answer(1, 50_000, 0);
        assert_eq!((answer.core.events, answer.core.run_ns, answer.core.cold_ns), (22, 22_000, 0));
        assert_eq!(answer.costs.misses(UNIT).and_then(|misses| misses.warm()), Some(12.0));
        assert_eq!((answer.costs.estimate_ns(UNIT), answer.core.misses), (1_000, None));
    }

    #[test]
    fn answer_begins_next_window_and_keeps_learned_costs() {
        let mut window = AnswerWindow::default();
        window.ran(UNIT, sample(1_000, None));
        window.posted(None, UNIT);
        let first = window.answer(1, 10_000, 0);
        assert_eq!(first.flows.flows().count(), 1);
        let second = window.answer(2, 25_000, 0);
        assert_eq!((second.core.events, second.core.window_ns, second.core.misses), (0, 15_000, None));
        assert_eq!((second.handlers[1].events, second.flows.flows().count()), (0, 0));
        assert_eq!(second.costs.estimate_ns(UNIT), 1_000);
    }
}
