//! The bench of the runtime: every program under every policy, beside tokio, smol and rayon on the
//! same work.
//!
//! Each run is a separate process (`child`). Rounds are interleaved and their order rotates,
//! because a drift of the machine then affects all variants alike. The plan is in `plan` and
//! `sizes`, the programs in `own`, `common` and `peers`, the loops in `run` and `duel`, the report
//! in `report`.

pub mod child;
pub mod plan;
pub mod report;
pub mod run;

mod common;
mod duel;
mod own;
mod peers;
mod server_graph;
mod sizes;
mod tasks;

use std::path::{Path, PathBuf};

use crate::BenchResult;
use crate::size::BenchSize;
use crate::stop::StopFlag;
use plan::{BenchProgram, RuntimeVariant};
use report::RuntimeBenchReport;

/// Rounds of a full run by default: the smallest number with a median and a spread.
pub const ROUNDS: usize = 5;

/// The options of a run.
#[derive(Clone, Debug)]
pub struct RuntimeBenchOptions {
    /// How much of each program.
    pub size: BenchSize,
    /// Interleaved rounds.
    pub rounds: usize,
    /// The programs, in the order of the tables.
    pub programs: Vec<BenchProgram>,
    /// The variants, in the order of the tables.
    pub variants: Vec<RuntimeVariant>,
    /// The binary `vermeil-runs`.
    pub runs: PathBuf,
    /// The repository, for the commit's name.
    pub repository: PathBuf,
}

/// The places of a full run's results.
#[derive(Clone, Debug)]
pub struct RuntimeOutputs {
    /// The summary, replaced.
    pub rows: PathBuf,
    /// The page with the generated section.
    pub page: PathBuf,
    /// The folder of the page's pictures, `img` beside the page.
    pub images: PathBuf,
}

impl RuntimeOutputs {
    /// The places in a repository.
    pub fn of(repository: &Path) -> Self {
        let docs = repository.join("docs");
        Self {
            rows: repository.join("results/runtime.tsv"),
            page: docs.join("benchmarks.md"),
            images: docs.join("img"),
        }
    }
}

/// Runs the bench.
///
/// # Errors
/// A run fails, does not end, or computes a different result than the other runs, or the bench is
/// interrupted.
pub fn run(options: &RuntimeBenchOptions, stop: &StopFlag) -> BenchResult<RuntimeBenchReport> {
    let cells = run::rounds(options, stop)?;
    Ok(RuntimeBenchReport::new(options, cells))
}

/// The variants of the smoke size: each way of stealing and of placing once, and every peer.
pub fn smoke_variants() -> Vec<RuntimeVariant> {
    let dropped = ["placed:cache-aware", "placed:intermediate-1", "placed:intermediate-2", "per-node"];
    let is_kept = |variant: &RuntimeVariant| !dropped.contains(&variant.name());
    RuntimeVariant::ALL.into_iter().filter(is_kept).collect()
}

/// Runs the smoke size and checks the shape of all results, in a temporary folder; asserts nothing
/// about time.
///
/// # Errors
/// As for [`run()`], and when a row is missing or holds an impossible number.
pub fn smoke(options: &RuntimeBenchOptions, stop: &StopFlag) -> BenchResult<RuntimeBenchReport> {
    let folder = tempfile::tempdir().map_err(crate::BenchError::thing("make", "a temporary folder"))?;
    let outputs = RuntimeOutputs::of(folder.path());
    let report = run(options, stop)?;
    report.write(&outputs)?;
    report.check(&outputs)?;
    Ok(report)
}
