//! What can be wrong with a layout, with a plan that somebody wrote, with the bounds of a trial, or with a recording.
//!
//! Owns the crate's one error type. Each message names the operation, the thing and the cure. Tested where each arises.

use vermeil_topology::CpuId;

/// A layout, a plan, a trial or a recording that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A layout without cores.
    #[error("layout: no cores; name at least one cpu")]
    NoCores,
    /// More cores than a layout may have.
    #[error("layout: {cores} cores are more than {max}; choose fewer")]
    TooManyCores {
        /// How many were named.
        cores: usize,
        /// The bound, [`crate::CORES_MAX`].
        max: usize,
    },
    /// A cpu that the machine does not have, or that is offline.
    #[error("layout: cpu {0} is not online on this machine; `vermeil topo` lists those that are")]
    UnknownCpu(CpuId),
    /// A matrix whose rows and columns do not fit.
    #[error("layout: row {row} of the distance matrix has {found} entries instead of {expected}")]
    NotSquare {
        /// The row, from 0.
        row: usize,
        /// Its entries.
        found: usize,
        /// The matrix's rows.
        expected: usize,
    },
    /// Two directions with different distances, or a distance of `Same` between two cores, or another from a core to
    /// itself.
    #[error(
        "layout: the distance between cores {a} and {b} is contradictory; it must be the same both ways, and Same \
         only from a core to itself"
    )]
    Contradiction {
        /// One core.
        a: usize,
        /// The other.
        b: usize,
    },
    /// A plan that is no TOML.
    #[error("plan: line {line}: {problem}; write one `handler = core` a line")]
    PlanSyntax {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// A placement that cannot be.
    #[error("plan: line {line}: `{handler}`: {problem}")]
    PlanEntry {
        /// The line, from 1.
        line: usize,
        /// The handler it places.
        handler: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A handler that does not exist.
    #[error("plan: line {line}: there is no handler `{handler}`; there are {known}")]
    PlanUnknown {
        /// The line, from 1.
        line: usize,
        /// The name that is not known.
        handler: String,
        /// Those that are.
        known: String,
    },
    /// A bound of a trial of plans that cannot be.
    #[error("trial: {option}: {problem}")]
    TrialOption {
        /// The field of [`TrialOptions`](crate::control::TrialOptions).
        option: &'static str,
        /// What it may be.
        problem: &'static str,
    },
    /// A line of a recording that is not as it should be.
    #[error("recording: line {line}: {problem}; see \"Recordings\" in docs/runtime.md for the form")]
    Recording {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
}
