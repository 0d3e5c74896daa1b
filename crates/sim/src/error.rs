//! Errors in written descriptions: a machine, a workload, a trace.
//!
//! Owns the crate's error type. Each message names the operation, the thing and the cure. Tested
//! where each error arises.

/// An invalid description.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// Text that is not TOML of the expected form. The source names line, column and key.
    #[error("{what}: {source}")]
    Toml {
        /// The kind of the text: "machine" or "workload".
        what: &'static str,
        /// The error of the parser.
        source: Box<toml::de::Error>,
    },
    /// A machine whose parts do not fit.
    #[error("machine {machine:?}: {problem}")]
    Machine {
        /// Name of the machine.
        machine: String,
        /// The problem and the cure.
        problem: String,
    },
    /// A topology that cannot be read.
    #[error(transparent)]
    Topology(#[from] vermeil_topology::TopologyError),
    /// An impossible layout.
    #[error(transparent)]
    Layout(#[from] vermeil_sched::SchedError),
    /// A workload whose parts do not fit.
    #[error("workload {workload:?}: {problem}")]
    Workload {
        /// Name of the workload.
        workload: String,
        /// The problem and the cure.
        problem: String,
    },
    /// A recording without events.
    #[error("the recording has no events")]
    Empty,
    /// An unknown name.
    #[error("no {kind} is called {name:?}; there are: {known}")]
    Unknown {
        /// The kind: "machine", "workload", "policy".
        kind: &'static str,
        /// The name as written.
        name: String,
        /// The known names.
        known: String,
    },
}

impl SimError {
    pub(crate) fn machine(machine: &str, problem: impl Into<String>) -> Self {
        Self::Machine { machine: machine.to_owned(), problem: problem.into() }
    }

    pub(crate) fn workload(workload: &str, problem: impl Into<String>) -> Self {
        Self::Workload { workload: workload.to_owned(), problem: problem.into() }
    }
}
