//! The monitor's role: who asks, who has answered, and to whom the role goes next.
//!
//! A round asks every core for its counters, by a control event that is served before all others. When all have answered, the
//! observation is complete and the role passes to the next core, so that no core pays for it more than its share and no thread
//! of its own is needed (Genevès tried one and found its context switches too dear). A core in a long event answers when
//! that ends; no core is given up, since a plan without it could not be carried out either. Leaves out the messages'
//! transport. Tested in `control/monitor/tests.rs`.

use super::{CoreWindow, HandlerWindow, Observation};
use crate::CoreIndex;
use crate::cost::CostTable;
use crate::flow::FlowCounts;
use crate::plan::Plan;

#[cfg(test)]
mod tests;

/// What one core answers: its counters since its last answer, which it then sets back. Its cost table goes on, faded by
/// [`CostTable::fade`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The core's own counters.
    pub core: CoreWindow,
    /// By handler, what ran on this core.
    pub handlers: Vec<HandlerWindow>,
    /// Who posted to whom, from this core.
    pub flows: FlowCounts,
    /// What this core has learned.
    pub costs: CostTable,
}

/// The monitor's role and its round.
#[derive(Clone, Debug)]
pub struct Monitor {
    /// Which core has the role.
    at: CoreIndex,
    /// Rounds begun.
    round: u64,
    /// By core; none are there between rounds.
    answers: Vec<Option<Answer>>,
    open: bool,
}

impl Monitor {
    /// The role stands with the first of so many cores, at least one.
    pub fn new(cores: usize) -> Self {
        Self { at: CoreIndex(0), round: 0, answers: vec![None; cores], open: false }
    }

    /// The core that has the role now.
    pub fn at(&self) -> CoreIndex {
        self.at
    }

    /// Whether a round waits for answers.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Begins a round: the number to ask every core with. `None` while one is open.
    pub fn begin(&mut self) -> Option<u64> {
        if self.open {
            return None;
        }
        self.open = true;
        self.round += 1;
        Some(self.round)
    }

    /// A core has answered. The last answer completes the round: the observation, apart from [`Observation::placed`], which is
    /// `placed`; and the role passes on. Answers to other rounds and second answers are ignored.
    pub fn answer(
        &mut self,
        core: CoreIndex,
        round: u64,
        answer: Answer,
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
    /// Takes in the answer of the next core.
    fn add(&mut self, answer: Answer) {
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
