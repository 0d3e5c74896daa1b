//! Merges the counts of agents: first each interval, then the whole run.
//!
//! The k-th intervals of all agents cover the same time, because agents begin together and divide
//! the run alike. Tested here.

use std::time::Duration;

use super::wire::AgentCounts;
use crate::measure::Tally;
use crate::run::{Interval, OpenWaits, Outcome, RunPhase};

/// The merged counts of all agents.
#[derive(Debug, Default)]
pub(super) struct AgentSum {
    slots: Vec<IncompleteInterval>,
    /// Total of the window, up to the last complete interval.
    pub(super) total: Tally,
    pub(super) intervals: Vec<Interval>,
    /// Number of reported intervals of each agent.
    told: Vec<usize>,
    /// Final outcome of each agent.
    ends: Vec<Option<Outcome>>,
}

/// An incomplete interval.
#[derive(Debug)]
struct IncompleteInterval {
    begins: Duration,
    lasts: Duration,
    phase: RunPhase,
    users: usize,
    tally: Tally,
}

impl AgentSum {
    /// Empty counts for `agents` agents.
    pub(super) fn new(agents: usize) -> Self {
        Self { told: vec![0; agents], ends: (0..agents).map(|_| None).collect(), ..Self::default() }
    }

    /// Adds an interval of an agent.
    pub(super) fn add(&mut self, agent: usize, counted: &AgentCounts) {
        let place = self.told[agent];
        self.told[agent] += 1;
        match self.slots.get_mut(place) {
            Some(slot) => {
                slot.lasts = slot.lasts.max(counted.lasts);
                slot.users += counted.users;
                slot.tally.merge(&counted.tally);
            }
            None => self.slots.push(IncompleteInterval {
                begins: counted.begins,
                lasts: counted.lasts,
                phase: counted.phase,
                users: counted.users,
                tally: counted.tally.clone(),
            }),
        }
    }

    /// Records that an agent has ended its run.
    pub(super) fn end(&mut self, agent: usize, outcome: Outcome) {
        self.ends[agent] = Some(outcome);
    }

    /// Whether an agent has ended its run.
    pub(super) fn has_ended(&self, agent: usize) -> bool {
        self.ends[agent].is_some()
    }

    /// Completes the next interval, if all `running` agents have reported it, and returns its
    /// counts.
    pub(super) fn next(&mut self, running: impl Iterator<Item = usize>) -> Option<Tally> {
        let place = self.intervals.len();
        let slot = self.slots.get_mut(place)?;
        let mut running = running;
        if !running.all(|agent| self.told[agent] > place) {
            return None;
        }
        let tally = std::mem::take(&mut slot.tally);
        self.intervals.push(Interval {
            begins: slot.begins,
            lasts: slot.lasts,
            phase: slot.phase,
            good: tally.good,
            failed: tally.failed(),
            bytes: tally.bytes,
            users: slot.users,
            percentiles: Interval::percentiles_of(&tally.response),
        });
        if slot.phase == RunPhase::Window {
            self.total.merge(&tally);
        }
        Some(tally)
    }

    /// The merged outcome; `planned` is the planned length of the window, `lost` names the agents
    /// that did not end.
    pub(super) fn finish(mut self, planned: Duration, users: usize, lost: Vec<String>) -> Outcome {
        while self.next(std::iter::empty()).is_some() {}
        let ends = || self.ends.iter().flatten();
        let most = |of: fn(&Outcome) -> f64| ends().map(of).fold(0.0, f64::max);
        let in_window = self.intervals.iter().filter(|interval| interval.phase == RunPhase::Window);
        let counted: Duration = in_window.map(|interval| interval.lasts).sum();
        let card = ends().filter_map(|end| end.card.clone()).max_by(|one, other| one.1.total_cmp(&other.1));
        Outcome {
            window: ends().map(|end| end.window).max().unwrap_or(counted),
            planned,
            cpu: ends().map(|end| end.cpu).sum(),
            cores_busy: ends().flat_map(|end| end.cores_busy.iter().copied()).collect(),
            stolen: most(|end| end.stolen),
            resent: most(|end| end.resent),
            card,
            users,
            unfinished: ends().map(|end| end.unfinished).sum(),
            waits: ends().filter_map(|end| end.waits).reduce(OpenWaits::merge),
            is_counted: ends().count() > 0 && ends().all(|end| end.is_counted),
            missed: ends().map(|end| end.missed).sum(),
            is_open: ends().any(|end| end.is_open),
            interrupted: ends().any(|end| end.interrupted),
            agents: Vec::new(),
            lost,
            io: ends().next().map_or_else(String::new, |end| end.io.clone()),
            total: self.total,
            intervals: self.intervals,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(phase: RunPhase, good: u64, ms: u64) -> AgentCounts {
        let mut tally = Tally { good, ..Tally::default() };
        tally.response.record_n(ms * 1_000_000, good);
        AgentCounts { begins: Duration::ZERO, lasts: Duration::from_millis(100), phase, users: 2, tally }
    }

    #[test]
    fn interval_completes_when_every_agent_reported() {
        let mut sum = AgentSum::new(2);
        sum.add(0, &counted(RunPhase::WarmUp, 5, 1));
        sum.add(0, &counted(RunPhase::Window, 10, 1));
        assert!(sum.next(0..2).is_none());
        sum.add(1, &counted(RunPhase::WarmUp, 7, 9));
        assert_eq!(sum.next(0..2).expect("told").good, 12);
        assert!(sum.next(0..2).is_none());
        sum.add(1, &counted(RunPhase::Window, 30, 9));
        assert_eq!(sum.next(0..2).expect("told").good, 40);
        assert_eq!((sum.total.good, sum.intervals[1].users), (40, 4));
        assert!(
            sum.intervals[1].percentiles[0].unwrap() > Duration::from_millis(8),
            "half of all, not of the first"
        );
    }

    #[test]
    fn counts_of_lost_agent_are_kept() {
        let mut sum = AgentSum::new(2);
        for _ in 0..3 {
            sum.add(0, &counted(RunPhase::Window, 10, 1));
        }
        sum.add(1, &counted(RunPhase::Window, 10, 1));
        assert!(sum.next(0..2).is_some() && sum.next(0..2).is_none());
        assert!(sum.next(0..1).is_some(), "the others go on");
        let outcome = sum.finish(Duration::from_secs(1), 4, vec!["b".to_owned()]);
        assert_eq!((outcome.total.good, outcome.intervals.len(), outcome.lost.len()), (40, 3, 1));
        assert_eq!(outcome.window, Duration::from_millis(300));
    }
}
