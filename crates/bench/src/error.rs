//! What can go wrong in a bench: the machine, a peer, or the person at the keyboard.

use std::io;
use std::path::Path;

/// Shorthand for this crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a bench stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused something.
    #[error("cannot {operation} {thing}: {source}")]
    Io {
        /// What was attempted, as a verb.
        operation: &'static str,
        /// The path, address or process it was attempted on.
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
        /// The Debian package that holds it.
        package: &'static str,
    },
    /// A command ran and failed.
    #[error("`{command}` failed: {output}")]
    Command {
        /// The command line.
        command: String,
        /// Its exit status and what it said.
        output: String,
    },
    /// A server did not start, answered wrongly or failed under load, so its numbers would mean nothing.
    #[error("{server}: {problem}")]
    Peer {
        /// The server.
        server: String,
        /// What it did, and where its log is.
        problem: String,
    },
    /// A file that the bench reads has not the form it expects.
    #[error("{thing} has an unexpected form: {problem}")]
    Form {
        /// The file or output.
        thing: String,
        /// What was missing or wrong.
        problem: String,
    },
    /// The person at the keyboard stopped the run; everything it started has been stopped too.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// For `map_err`: an [`Error::Io`] about a path.
    pub fn path(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let thing = path.display().to_string();
        move |source| Self::Io { operation, thing, source }
    }

    /// For `map_err`: an [`Error::Io`] about anything that can be named.
    pub fn thing(operation: &'static str, thing: impl ToString) -> impl FnOnce(io::Error) -> Self {
        let thing = thing.to_string();
        move |source| Self::Io { operation, thing, source }
    }

    /// An [`Error::Peer`].
    pub fn peer(server: impl ToString, problem: impl ToString) -> Self {
        Self::Peer { server: server.to_string(), problem: problem.to_string() }
    }

    /// An [`Error::Form`].
    pub fn form(thing: impl ToString, problem: impl ToString) -> Self {
        Self::Form { thing: thing.to_string(), problem: problem.to_string() }
    }
}
