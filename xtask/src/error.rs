//! The errors of a script.

use std::io;
use std::path::Path;

/// Shorthand for this crate's results.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// The reason why a script failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The operating system refused an operation.
    #[error("cannot {operation} {thing}: {source}")]
    Io { operation: &'static str, thing: String, source: io::Error },
    /// A command ran and failed.
    #[error("`{command}` failed ({status})")]
    Command { command: String, status: String },
    /// Malformed input.
    #[error("{thing}: {problem}")]
    Form { thing: String, problem: String },
    /// Findings of a check, each on a separate line.
    #[error("{}", .0.join("\n       "))]
    Findings(Vec<String>),
    /// Failed steps, which have printed the reasons.
    #[error("failed: {}", .0.join(", "))]
    Steps(Vec<String>),
    /// A failure that was printed already.
    #[error("failed")]
    Reported,
    /// A bench failed.
    #[error(transparent)]
    Bench(#[from] vermeil_bench::BenchError),
}

impl Error {
    /// For `map_err`: an [`Error::Io`] about a path.
    pub(crate) fn path(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let thing = path.display().to_string();
        move |source| Self::Io { operation, thing, source }
    }

    /// An [`Error::Form`].
    pub(crate) fn form(thing: impl ToString, problem: impl ToString) -> Self {
        Self::Form { thing: thing.to_string(), problem: problem.to_string() }
    }

    /// `Ok` when there are no findings.
    pub(crate) fn unless_empty(findings: Vec<String>) -> Result<()> {
        if findings.is_empty() { Ok(()) } else { Err(Self::Findings(findings)) }
    }
}
