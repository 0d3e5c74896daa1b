//! A core's turn: run events, poll I/O, fire timers, sleep; the order and the duration of these
//! steps.
//!
//! Contains the bounds that keep any step from starving the others. Leaves out the execution of the
//! steps. Tested below on invented observations.

use crate::Stealing;

/// Bounds of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnLimits {
    /// Events that a color and its successors may run before the next color's turn. Higher keeps
    /// caches warm, lower is fairer. Default 32, between Mely's 10 and Verona's 100. Simulated: on
    /// an overloaded machine (`keyed` on `pentium3-4`) 16 loses 7 % of the rate, and 64 gains 6 %.
    /// The other shipped workloads change their rate by 2.3 % at most.
    pub batch_events: usize,
    /// Events that a core may run before polling I/O and timers again. Default 256: at a few
    /// microseconds per event, under a millisecond.
    pub turn_events: usize,
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self { batch_events: 32, turn_events: 256 }
    }
}

/// A core's observation at the choice of the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnView {
    /// Colors in the core's ready queue.
    pub ready: usize,
    /// Whether the runtime is stopping.
    pub stopping: bool,
}

/// The next step of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnStep {
    /// Run the oldest ready color.
    Run {
        /// Maximum number of events in this activation, unless the handler has another limit.
        batch: usize,
        /// Maximum number of events in any case: the rest of the turn.
        left: usize,
    },
    /// Submit and complete I/O without waiting, fire timers, then ask again.
    Poll,
    /// No work on this core: search for work to steal, then ask again.
    Search,
    /// No work: submit I/O and sleep until a completion, a timer or a wake-up.
    Park,
    /// The runtime stops, and no color is queued or a whole turn has run, because an endless color
    /// must not prevent the stop.
    Stop,
}

/// The progress of a core in its turn.
#[derive(Debug)]
pub struct Turn {
    limits: TurnLimits,
    steals: bool,
    ran: usize,
    searched: bool,
}

impl Turn {
    /// A core that has just polled I/O.
    pub fn new(limits: TurnLimits, stealing: Stealing) -> Self {
        // A turn of zero events would never run any.
        let limits = TurnLimits { turn_events: limits.turn_events.max(1), ..limits };
        Self { limits, steals: stealing.is_on(), ran: 0, searched: false }
    }

    /// Decides the next step.
    pub fn next(&self, seen: TurnView) -> TurnStep {
        let left = self.limits.turn_events.saturating_sub(self.ran);
        match seen {
            TurnView { ready: 0, stopping: true } => TurnStep::Stop,
            TurnView { ready: 0, stopping: false } if self.steals && !self.searched => TurnStep::Search,
            TurnView { ready: 0, stopping: false } => TurnStep::Park,
            TurnView { stopping: true, .. } if left == 0 => TurnStep::Stop,
            _ if left == 0 => TurnStep::Poll,
            _ => TurnStep::Run { batch: self.limits.batch_events.clamp(1, left), left },
        }
    }

    /// Counts events that ran.
    pub fn ran(&mut self, events: usize) {
        self.ran += events;
        self.searched = false;
    }

    /// The core has searched; any stolen colors are in its ready queue.
    pub fn searched(&mut self) {
        self.searched = true;
    }

    /// The turn has lasted long enough, however few events ran.
    pub fn expire(&mut self) {
        self.ran = self.ran.max(self.limits.turn_events);
    }

    /// The core has polled I/O and timers: the next turn begins.
    pub fn polled(&mut self) {
        self.ran = 0;
        self.searched = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: TurnLimits = TurnLimits { batch_events: 4, turn_events: 10 };

    #[test]
    fn a_busy_core_still_looks_at_its_io() {
        let mut turn = Turn::new(LIMITS, Stealing::Never);
        let mut ran = 0;
        while let TurnStep::Run { batch, .. } = turn.next(TurnView { ready: 1, stopping: false }) {
            turn.ran(batch);
            ran += batch;
        }
        assert_eq!(ran, LIMITS.turn_events);
        assert_eq!(turn.next(TurnView { ready: 1, stopping: false }), TurnStep::Poll);
        turn.polled();
        assert_eq!(turn.next(TurnView { ready: 1, stopping: false }), TurnStep::Run { batch: 4, left: 10 });
    }

    /// Regression: a single color with long events kept its core from polling I/O for a whole turn
    /// of events.
    #[test]
    fn an_expired_turn_looks_at_its_io() {
        let mut turn = Turn::new(LIMITS, Stealing::Never);
        turn.expire();
        assert_eq!(turn.next(TurnView { ready: 1, stopping: false }), TurnStep::Poll);
    }

    #[test]
    fn an_idle_core_parks_and_a_stopping_one_stops_when_it_is_empty() {
        let turn = Turn::new(LIMITS, Stealing::Never);
        assert_eq!(turn.next(TurnView { ready: 0, stopping: false }), TurnStep::Park);
        assert_eq!(turn.next(TurnView { ready: 0, stopping: true }), TurnStep::Stop);
        assert!(matches!(turn.next(TurnView { ready: 3, stopping: true }), TurnStep::Run { .. }));
    }

    /// Regression: a color that requeues itself kept its core from ever stopping.
    #[test]
    fn stopping_core_runs_one_turn_of_queued_events() {
        let mut turn = Turn::new(LIMITS, Stealing::Never);
        turn.ran(LIMITS.turn_events);
        assert_eq!(turn.next(TurnView { ready: 1, stopping: true }), TurnStep::Stop);
    }

    #[test]
    fn turn_runs_an_event_under_any_limits() {
        let turn = Turn::new(TurnLimits { batch_events: 0, turn_events: 0 }, Stealing::Never);
        assert_eq!(turn.next(TurnView { ready: 1, stopping: false }), TurnStep::Run { batch: 1, left: 1 });
    }

    #[test]
    fn an_idle_core_looks_around_once_before_it_parks() {
        let idle = TurnView { ready: 0, stopping: false };
        let mut turn = Turn::new(LIMITS, Stealing::Learned);
        assert_eq!(turn.next(idle), TurnStep::Search);
        turn.searched();
        assert_eq!(turn.next(idle), TurnStep::Park);
        turn.polled();
        assert_eq!(turn.next(idle), TurnStep::Search);
        assert_eq!(turn.next(TurnView { stopping: true, ..idle }), TurnStep::Stop);
    }
}
