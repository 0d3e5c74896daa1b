//! The exit codes of the process, and their description for help and man page.
//!
//! Tested in `tests.rs`: each code is in the help and in the man page.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done; a server was asked to stop and nothing was cut.
    Clean = 0,
    /// Failed after the start.
    Failed = 1,
    /// The command line or the configuration makes no sense, by itself or on this machine.
    Usage = 2,
    /// The command line is correct, but a required resource is missing.
    CannotStart = 3,
    /// The server stopped with requests unfinished.
    Cut = 4,
    /// A run was measured, and something other than the server set the pace.
    Doubtful = 5,
    /// A run was measured, and the server missed its targets.
    NotHeld = 6,
}

impl Exit {
    /// All codes, ascending.
    pub const ALL: [Self; 7] =
        [Self::Clean, Self::Failed, Self::Usage, Self::CannotStart, Self::Cut, Self::Doubtful, Self::NotHeld];

    /// The meaning of the code, for people.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Clean => "done; a server stopped when asked to, and every request was finished",
            Self::Failed => "failed while serving, or unexpectedly",
            Self::Usage => "bad usage: an option, a key of the configuration, or its value on this machine",
            Self::CannotStart => {
                "cannot start: a port is taken, a folder or file is missing or may not be read"
            }
            Self::Cut => "the drain deadline passed, or a second signal came, and requests were cut",
            Self::Doubtful => {
                "a run of vermeil load is marked INVALID: it failed in part, or something else than the server set the pace"
            }
            Self::NotHeld => {
                "a run of vermeil load passed a threshold that it was to keep, or the quality of service was not held"
            }
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
