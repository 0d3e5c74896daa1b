//! The monitor's role: which core asks, which cores have answered, and the core that gets the role
//! next.
//!
//! A round asks every core for the core's counters, by a control event that runs before all others.
//! When all cores have answered, the observation is complete and the role passes to the next core.
//! So each core pays an equal share of the cost and no thread is needed (Genevès tried a thread and
//! found the context switches too expensive). A core in a long event answers after the event. The
//! round waits for every core, because a plan could not be carried out without that core either.
//! Leaves out the transport of messages. Tested in `control/monitor/tests.rs`.

use super::{CoreWindow, HandlerWindow, Observation};
use crate::CoreIndex;
use crate::cost::CostTable;
use crate::flow::FlowCounts;
use crate::plan::Plan;

#[cfg(test)]
mod tests;

/// The answer of a core: the counters since the core's last answer. The core then resets the
/// counters. The cost table continues, faded by [`CostTable::fade`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MonitorAnswer {
    /// The core's own counters.
    pub core: CoreWindow,
    /// By handler, the events that ran on this core.
    pub handlers: Vec<HandlerWindow>,
    /// The posts from this core, by poster and handler.
    pub flows: FlowCounts,
    /// The costs that this core has learned.
    pub costs: CostTable,
}

/// The monitor's role and its round.
#[derive(Clone, Debug)]
pub struct Monitor {
    /// The core that has the role.
    at: CoreIndex,
    /// Rounds begun.
    round: u64,
    /// By core; all `None` between rounds.
    answers: Vec<Option<MonitorAnswer>>,
    open: bool,
}

impl Monitor {
    /// The role starts at the first of `cores` cores (at least one).
    pub fn new(cores: usize) -> Self {
        Self { at: CoreIndex(0), round: 0, answers: vec![None; cores], open: false }
    }

    /// The core that has the role.
    pub fn at(&self) -> CoreIndex {
        self.at
    }

    /// Whether a round waits for answers.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Begins a round and returns the round's number, to ask every core with. `None` while a round
    /// is open.
    pub fn begin(&mut self) -> Option<u64> {
        if self.open {
            return None;
        }
        self.open = true;
        self.round += 1;
        Some(self.round)
    }

    /// Adds a core's answer. The last answer completes the round: the result is the observation,
    /// with [`Observation::placed`] set to `placed`, and the role passes on. Answers to other
    /// rounds and second answers are ignored.
    pub fn answer(
        &mut self,
        core: CoreIndex,
        round: u64,
        answer: MonitorAnswer,
        placed: &Plan,
    ) -> Option<Observation> {
        let slot = self.answers.get_mut(core.0 as usize)?;
        if !self.open || round != self.round || slot.is_some() {
            return None;
        }
        *slot = Some(answer);
        if self.answers.iter().any(Option::is_none) {
            return None;
        }
        self.open = false;
        self.at = CoreIndex((self.at.0 + 1) % self.answers.len() as u32);
        let answers = self.answers.iter_mut().filter_map(Option::take);
        let mut seen = Observation { placed: placed.clone(), ..Observation::default() };
        answers.for_each(|answer| seen.add(answer));
        Some(seen)
    }
}

impl Observation {
    /// Adds the answer of the next core.
    fn add(&mut self, answer: MonitorAnswer) {
        self.cores.push(answer.core);
        let handlers = self.handlers.len().max(answer.handlers.len());
        self.handlers.resize(handlers, HandlerWindow::default());
        for (all, one) in self.handlers.iter_mut().zip(&answer.handlers) {
            all.add(one);
        }
        self.flows.merge(&answer.flows);
        self.costs.merge(&answer.costs);
    }
}

impl HandlerWindow {
    fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.run_ns += other.run_ns;
        self.cold_ns += other.cold_ns;
        self.queued += other.queued;
    }
}
