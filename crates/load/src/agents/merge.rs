//! Merges the counts of agents: first each interval, then the whole run.
//!
//! Agents begin together and divide each phase alike, so the k-th intervals of a phase cover about
//! the same time. An agent that was late within a phase has fewer intervals of the phase. Therefore
//! intervals are numbered within their phase. Tested here.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use super::wire::AgentCounts;
use crate::measure::Tally;
use crate::run::{Interval, OpenWaits, Outcome, RunPhase};

/// The merged counts of all agents.
#[derive(Debug, Default)]
pub(super) struct AgentSum {
    /// Intervals that not every running agent has reported.
    incomplete: BTreeMap<IntervalPlace, IncompleteInterval>,
    /// The place of the last complete interval.
    complete: Option<IntervalPlace>,
    /// Total of the window, up to the last complete interval.
    pub(super) total: Tally,
    pub(super) intervals: Vec<Interval>,
    /// The place of each agent's next interval, if the agent's phase goes on.
    due: Vec<IntervalPlace>,
    /// Final outcome of each agent.
    ends: Vec<Option<Outcome>>,
}

/// The place of an interval in a run, in the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct IntervalPlace {
    phase: RunPhase,
    /// The number within the phase, from 0.
    number: usize,
}

/// An incomplete interval.
#[derive(Debug)]
struct IncompleteInterval {
    begins: Duration,
    lasts: Duration,
    users: usize,
    tally: Tally,
}

impl AgentSum {
    /// Empty counts for `agents` agents.
    pub(super) fn new(agents: usize) -> Self {
        let first = IntervalPlace { phase: RunPhase::RampUp, number: 0 };
        Self { due: vec![first; agents], ends: (0..agents).map(|_| None).collect(), ..Self::default() }
    }

    /// Adds an interval of an agent.
    pub(super) fn add(&mut self, agent: usize, counted: &AgentCounts) {
        let due = self.due[agent];
        let number = if due.phase == counted.phase { due.number } else { 0 };
        let place = IntervalPlace { phase: counted.phase, number };
        self.due[agent] = IntervalPlace { number: number + 1, ..place };
        // An agent that counts as lost may still report.
        if self.complete.is_some_and(|complete| place <= complete) {
            return;
        }
        match self.incomplete.entry(place) {
            Entry::Occupied(entry) => {
                let interval = entry.into_mut();
                interval.lasts = interval.lasts.max(counted.lasts);
                interval.users += counted.users;
                interval.tally.merge(&counted.tally);
            }
            Entry::Vacant(entry) => {
                entry.insert(IncompleteInterval {
                    begins: counted.begins,
                    lasts: counted.lasts,
                    users: counted.users,
                    tally: counted.tally.clone(),
                });
            }
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

    /// Completes the next interval, if all `running` agents have reported the interval or a later
    /// one, and returns its counts.
    pub(super) fn next(&mut self, mut running: impl Iterator<Item = usize>) -> Option<Tally> {
        let (&place, _) = self.incomplete.first_key_value()?;
        if !running.all(|agent| self.due[agent] > place) {
            return None;
        }
        let IncompleteInterval { begins, lasts, users, tally } = self.incomplete.remove(&place)?;
        self.complete = Some(place);
        self.intervals.push(Interval {
            begins,
            lasts,
            phase: place.phase,
            good: tally.good,
            failed: tally.failed(),
            bytes: tally.bytes,
            users,
            percentiles: Interval::percentiles_of(&tally.response),
        });
        if place.phase == RunPhase::Window {
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
            began_late: ends().map(|end| end.began_late).max().unwrap_or_default(),
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

    /// Regression: the k-th intervals of all agents were one, so the counts of the second agent's
    /// first interval of the window were in the warm-up, and lost.
    #[test]
    fn intervals_are_merged_within_their_phase() {
        use RunPhase::{WarmUp, Window};
        let mut sum = AgentSum::new(2);
        for phase in [WarmUp, WarmUp, Window] {
            sum.add(0, &counted(phase, 10, 1));
        }
        assert!(sum.next(0..2).is_none());
        sum.add(1, &counted(WarmUp, 10, 1));
        assert_eq!(sum.next(0..2).expect("both reported the interval").good, 20);
        assert!(sum.next(0..2).is_none(), "the second agent may still report warm-up");
        sum.add(1, &counted(Window, 10, 1));
        let complete = [(); 2].map(|()| sum.next(0..2).expect("both are in the window").good);
        assert_eq!(complete, [10, 20]);
        sum.add(1, &counted(Window, 10, 1));
        assert!(sum.next(0..2).is_none(), "the first agent may still report the window");
        assert_eq!(sum.next(1..2).expect("the first agent has ended").good, 10);
        let phases: Vec<_> = sum.intervals.iter().map(|interval| interval.phase).collect();
        assert_eq!((sum.total.good, &phases[..]), (30, &[WarmUp, WarmUp, Window, Window][..]));
        sum.add(0, &counted(Window, 10, 1));
        assert!(sum.next(1..2).is_none(), "a report after the loss does not repeat an interval");
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
