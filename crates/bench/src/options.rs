//! The options of a bench.

use std::path::PathBuf;
use std::time::Duration;

use crate::size::BenchSize;

/// The options of a run.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// How much of the bench.
    pub size: BenchSize,
    /// Interleaved rounds; the search for the most users has trials instead.
    pub rounds: usize,
    /// Time under load of each run, or the counted part of each trial. Ignored by benches with a
    /// fixed length of runs.
    pub duration: Duration,
    /// The binary `vermeil`; the other binaries that benches start are in the same folder.
    pub vermeil: PathBuf,
    /// The repository, for the commit's name.
    pub repository: PathBuf,
}

impl BenchOptions {
    /// The binary `name`.
    pub fn binary(&self, name: &str) -> PathBuf {
        self.vermeil.with_file_name(name)
    }
}
