//! What a bench is asked for.

use std::path::PathBuf;
use std::time::Duration;

use crate::size::Size;

/// What to run, and with what.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much of the bench.
    pub size: Size,
    /// Interleaved rounds; the search for the most users has trials instead.
    pub rounds: usize,
    /// Time under load of each run, or the part of each trial that counts. Benches whose runs have a length of their own do
    /// not look at it.
    pub duration: Duration,
    /// The binary `vermeil`; the others that benches start are beside it.
    pub vermeil: PathBuf,
    /// The repository, for the commit's name.
    pub repository: PathBuf,
}

impl Options {
    /// The binary `name`.
    pub fn binary(&self, name: &str) -> PathBuf {
        self.vermeil.with_file_name(name)
    }
}
