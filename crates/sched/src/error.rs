//! Errors of a layout, a plan file, the options of a trial, or a recording.
//!
//! The crate's only error type. Each message names the operation, the thing and the cure. Tested
//! where each error arises.

use vermeil_topology::CpuId;

/// An invalid layout, plan, trial or recording.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchedError {
    /// A layout without cores.
    #[error("layout: no cores; name at least one cpu")]
    NoCores,
    /// More cores than a layout may have.
    #[error("layout: {cores} cores are more than {max}; choose fewer")]
    TooManyCores {
        /// The number of cores.
        cores: usize,
        /// The bound, [`crate::CORES_MAX`].
        max: usize,
    },
    /// A cpu that the machine does not have, or that is offline.
    #[error("layout: cpu {0} is not online on this machine; `vermeil topo` lists those that are")]
    UnknownCpu(CpuId),
    /// A matrix whose rows and columns do not match.
    #[error("layout: row {row} of the distance matrix has {found} entries instead of {expected}")]
    NotSquare {
        /// The row, from 0.
        row: usize,
        /// Entries of the row.
        found: usize,
        /// Rows of the matrix.
        expected: usize,
    },
    /// Different distances in the two directions, or `Same` between two cores, or another distance
    /// from a core to itself.
    #[error(
        "layout: the distance between cores {a} and {b} is contradictory; it must be the same both ways, and Same \
         only from a core to itself"
    )]
    Contradiction {
        /// The first core.
        a: usize,
        /// The second core.
        b: usize,
    },
    /// A plan that is no TOML.
    #[error("plan: line {line}: {problem}; write one `handler = core` a line")]
    PlanSyntax {
        /// The line, from 1.
        line: usize,
        /// The problem.
        problem: String,
    },
    /// An invalid placement.
    #[error("plan: line {line}: `{handler}`: {problem}")]
    PlanEntry {
        /// The line, from 1.
        line: usize,
        /// The handler of the line.
        handler: String,
        /// The problem.
        problem: String,
    },
    /// A handler that does not exist.
    #[error("plan: line {line}: there is no handler `{handler}`; there are {known}")]
    PlanUnknown {
        /// The line, from 1.
        line: usize,
        /// The unknown name.
        handler: String,
        /// The known names.
        known: String,
    },
    /// An invalid option of a trial of plans.
    #[error("trial: {option}: {problem}")]
    TrialOption {
        /// The field of [`TrialOptions`](crate::control::TrialOptions).
        option: &'static str,
        /// The valid values.
        problem: &'static str,
    },
    /// An invalid line of a recording.
    #[error("recording: line {line}: {problem}; see \"Recordings\" in docs/runtime.md for the form")]
    Recording {
        /// The line, from 1.
        line: usize,
        /// The problem.
        problem: String,
    },
}
