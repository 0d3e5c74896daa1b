//! What can be wrong with what somebody wrote: a machine, a workload, a trace.
//!
//! Owns the crate's one error type. Each message names the operation, the thing and the cure. Tested where each arises.

/// A description that makes no sense.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Text that is not TOML of the expected form. The source names line, column and key.
    #[error("{what}: {source}")]
    Toml {
        /// What was read: "machine" or "workload".
        what: &'static str,
        /// What the parser says.
        source: Box<toml::de::Error>,
    },
    /// A machine whose parts do not fit.
    #[error("machine {machine:?}: {problem}")]
    Machine {
        /// Its name.
        machine: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// A topology that cannot be read.
    #[error(transparent)]
    Topology(#[from] vermeil_topology::Error),
    /// A layout that cannot be.
    #[error(transparent)]
    Layout(#[from] vermeil_sched::Error),
    /// A workload whose parts do not fit.
    #[error("workload {workload:?}: {problem}")]
    Workload {
        /// Its name.
        workload: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// A recording in which nothing ran.
    #[error("the recording has no events")]
    Empty,
    /// A name that nothing has.
    #[error("no {kind} is called {name:?}; there are: {known}")]
    Unknown {
        /// What was looked for: "machine", "workload", "policy".
        kind: &'static str,
        /// The name as written.
        name: String,
        /// The names there are.
        known: String,
    },
}

impl Error {
    pub(crate) fn machine(machine: &str, problem: impl Into<String>) -> Self {
        Self::Machine { machine: machine.to_owned(), problem: problem.into() }
    }

    pub(crate) fn workload(workload: &str, problem: impl Into<String>) -> Self {
        Self::Workload { workload: workload.to_owned(), problem: problem.into() }
    }
}
