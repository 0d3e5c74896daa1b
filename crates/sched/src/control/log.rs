//! What a controller decided, when, and why: for people who ask why a handler moved.
//!
//! Owns a bounded log. Tested in `control/tests.rs`.

use std::collections::VecDeque;
use std::fmt;

use crate::HandlerIndex;
use crate::plan::Move;

/// Most decisions that are kept; the oldest go first. A settled controller makes a few a minute.
pub const DECISIONS_MAX: usize = 256;

/// What was decided. Gains are shares: 0.2 is a fifth better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A plan was put in force that needs no reason: a fixed one.
    Applied,
    /// The candidate with this number is tried next.
    Tried {
        /// Its position among the candidates, from 0.
        candidate: usize,
    },
    /// After trying all candidates, this one stays.
    Chosen {
        /// Its position among the candidates, from 0.
        candidate: usize,
        /// The share of run time that caches cost under it.
        activity: f64,
    },
    /// A search looked at so many plans and found none that pays a trial; `predicted` is the best one's gain.
    Nothing {
        /// Plans looked at.
        candidates: usize,
        /// What the best promised.
        predicted: f64,
    },
    /// A contest with a predicted better plan began.
    Challenged {
        /// Plans looked at.
        candidates: usize,
        /// What it promises.
        predicted: f64,
    },
    /// The challenger was measured to be better and stays.
    Committed {
        /// What it promised.
        predicted: f64,
        /// What it was measured to bring.
        measured: f64,
        /// Paired comparisons that it took.
        pairs: usize,
    },
    /// The challenger was not better, or not by enough.
    Refuted {
        /// What it promised.
        predicted: f64,
        /// What it was measured to bring.
        measured: f64,
        /// Paired comparisons that it took.
        pairs: usize,
    },
    /// A contest or a trial ended without a verdict.
    Abandoned(Why),
    /// The load is no longer the one that the plan was chosen for.
    Shifted,
}

/// Why a contest ended without a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The load changed meanwhile.
    LoadShifted,
    /// Handlers came, went or were moved by others.
    PlacementChanged,
    /// Trials have cost what they may cost.
    RegretSpent,
    /// Too little ran to compare anything.
    Idle,
}

/// One decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// When, on the controller's clock.
    pub at_ns: u64,
    /// What and why.
    pub event: Event,
    /// What was moved for it.
    pub moves: Vec<Move>,
}

/// The last [`DECISIONS_MAX`] decisions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecisionLog {
    kept: VecDeque<Decision>,
    total: u64,
}

impl DecisionLog {
    pub(super) fn push(&mut self, at_ns: u64, event: Event, moves: &[Move]) {
        if self.kept.len() == DECISIONS_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(Decision { at_ns, event, moves: moves.to_vec() });
        self.total += 1;
    }

    /// The decisions that are kept, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Decision> {
        self.kept.iter()
    }

    /// How many were ever made.
    pub fn total(&self) -> u64 {
        self.total
    }
}

impl Decision {
    /// In words: when, what, and which handlers moved where, by their names.
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

impl fmt::Display for Event {
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
            Self::RegretSpent => "trials have cost what they may cost",
            Self::Idle => "too little runs to compare plans",
        })
    }
}
