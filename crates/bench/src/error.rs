//! The errors of a bench: from the machine, a peer, or an interruption.

use std::io;
use std::path::Path;

/// Shorthand for this crate's results.
pub type BenchResult<T> = std::result::Result<T, BenchError>;

/// Why a bench stopped.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The operating system refused something.
    #[error("cannot {operation} {thing}: {source}")]
    Io {
        /// The attempted operation, as a verb.
        operation: &'static str,
        /// The path, address or process of the operation.
        thing: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A program the bench needs is not on this machine.
    #[error(
        "{program} is not installed: install the Debian package {package}, or leave it out with --servers"
    )]
    Missing {
        /// The program.
        program: &'static str,
        /// The Debian package with the program.
        package: &'static str,
    },
    /// A command ran and failed.
    #[error("`{command}` failed: {output}")]
    Command {
        /// The command line.
        command: String,
        /// The exit status and the output.
        output: String,
    },
    /// A server did not start, answered wrongly or failed under load, so its numbers would mean
    /// nothing.
    #[error("{server}: {problem}")]
    Peer {
        /// The server.
        server: String,
        /// The problem, and the path of the log.
        problem: String,
    },
    /// A file that the bench reads does not have the expected form.
    #[error("{thing} has an unexpected form: {problem}")]
    Form {
        /// The file or output.
        thing: String,
        /// The missing or wrong part.
        problem: String,
    },
    /// The user interrupted the run; all started processes have been stopped too.
    #[error("interrupted")]
    Interrupted,
}

impl BenchError {
    /// For `map_err`: an [`BenchError::Io`] about a path.
    pub fn path(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let thing = path.display().to_string();
        move |source| Self::Io { operation, thing, source }
    }

    /// For `map_err`: an [`BenchError::Io`] about a named thing.
    pub fn thing(operation: &'static str, thing: impl ToString) -> impl FnOnce(io::Error) -> Self {
        let thing = thing.to_string();
        move |source| Self::Io { operation, thing, source }
    }

    /// An [`BenchError::Peer`].
    pub fn peer(server: impl ToString, problem: impl ToString) -> Self {
        Self::Peer { server: server.to_string(), problem: problem.to_string() }
    }

    /// An [`BenchError::Form`].
    pub fn form(thing: impl ToString, problem: impl ToString) -> Self {
        Self::Form { thing: thing.to_string(), problem: problem.to_string() }
    }
}
