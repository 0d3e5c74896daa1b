//! The decisions of a controller, with time and reason, so an operator can see why a handler moved.
//!
//! A bounded log. Tested in `control/tests.rs`.

use std::collections::VecDeque;
use std::fmt;

use crate::HandlerIndex;
use crate::plan::Move;

/// Maximum number of kept decisions; the oldest are dropped first. A settled controller makes a few
/// per minute.
pub const DECISIONS_MAX: usize = 256;

/// A decision. Gains are shares: 0.2 is a fifth better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ControlEvent {
    /// A fixed plan was put in force, without a reason.
    Applied,
    /// The candidate with this number is tried next.
    Tried {
        /// Position among the candidates, from 0.
        candidate: usize,
    },
    /// After a trial of all candidates, this candidate stays.
    Chosen {
        /// Position among the candidates, from 0.
        candidate: usize,
        /// The share of run time that caches cost under this candidate.
        activity: f64,
    },
    /// A search found no plan that pays for a trial.
    Nothing {
        /// Number of plans examined.
        candidates: usize,
        /// The best promised gain.
        predicted: f64,
    },
    /// A trial with a candidate that promises more began.
    Challenged {
        /// Number of plans examined.
        candidates: usize,
        /// The promised gain.
        predicted: f64,
    },
    /// The candidate measured better and stays.
    Committed {
        /// The promised gain.
        predicted: f64,
        /// The measured gain.
        measured: f64,
        /// Number of paired comparisons.
        pairs: usize,
    },
    /// The candidate was not better, or not by enough.
    Refuted {
        /// The promised gain.
        predicted: f64,
        /// The measured gain.
        measured: f64,
        /// Number of paired comparisons.
        pairs: usize,
    },
    /// A trial or a trial ended without a verdict.
    Abandoned(Why),
    /// The load differs from the load that the plan was chosen for.
    Shifted,
}

/// Why a trial ended without a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The load changed meanwhile.
    LoadShifted,
    /// Handlers came, went or were moved by another actor.
    PlacementChanged,
    /// The regret budget is spent.
    RegretSpent,
    /// Too few events ran for a comparison.
    Idle,
}

/// A decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The time, on the controller's clock.
    pub at_ns: u64,
    /// The decision and the reason.
    pub event: ControlEvent,
    /// The moves that carry out the decision.
    pub moves: Vec<Move>,
}

/// The last [`DECISIONS_MAX`] decisions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecisionLog {
    kept: VecDeque<Decision>,
    total: u64,
}

impl DecisionLog {
    pub(super) fn push(&mut self, at_ns: u64, event: ControlEvent, moves: &[Move]) {
        if self.kept.len() == DECISIONS_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(Decision { at_ns, event, moves: moves.to_vec() });
        self.total += 1;
    }

    /// The kept decisions, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Decision> {
        self.kept.iter()
    }

    /// The number of decisions ever made.
    pub fn total(&self) -> u64 {
        self.total
    }
}

impl Decision {
    /// The decision in words: time, decision, and the handlers that moved, by name.
    pub fn told(&self, name: impl Fn(HandlerIndex) -> String) -> String {
        let moved = |&Move { handler, to }: &Move| format!("; {} to {to}", name(handler));
        let moves: String = self.moves.iter().map(moved).collect();
        format!("{:.3} s: {}{moves}", self.at_ns as f64 * 1e-9, self.event)
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told(|handler| format!("handler {}", handler.0)))
    }
}

impl fmt::Display for ControlEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| share * 100.0;
        match *self {
            Self::Applied => f.write_str("the plan is put in force"),
            Self::Tried { candidate } => write!(f, "plan {candidate} is tried"),
            Self::Chosen { candidate, activity } => {
                write!(
                    f,
                    "plan {candidate} stays; caches cost {:.1} percent of the run time",
                    percent(activity)
                )
            }
            Self::Nothing { candidates, predicted } => {
                write!(
                    f,
                    "of {candidates} plans none pays a trial; the best promises {:.1} percent",
                    percent(predicted)
                )
            }
            Self::Challenged { candidates, predicted } => {
                write!(
                    f,
                    "the best of {candidates} plans promises {:.1} percent and is tried",
                    percent(predicted)
                )
            }
            Self::Committed { predicted, measured, pairs } => write!(
                f,
                "it brings {:.1} percent of promised {:.1} in {pairs} comparisons and stays",
                percent(measured),
                percent(predicted)
            ),
            Self::Refuted { predicted, measured, pairs } => write!(
                f,
                "it brings {:.1} percent of promised {:.1} in {pairs} comparisons and is dropped",
                percent(measured),
                percent(predicted)
            ),
            Self::Abandoned(why) => write!(f, "given up: {why}"),
            Self::Shifted => f.write_str("the load has changed; it is learned again"),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LoadShifted => "the load changed meanwhile",
            Self::PlacementChanged => "handlers were placed by others meanwhile",
            Self::RegretSpent => "the budget of trials is spent",
            Self::Idle => "too little runs to compare plans",
        })
    }
}
