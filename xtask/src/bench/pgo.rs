//! `cargo xtask bench pgo`: the release beside the build of `cargo xtask pgo`.

use std::time::Duration;

use vermeil_bench::pgo::{self, PgoBenchOptions};
use vermeil_bench::size::BenchSize;
use vermeil_bench::stop::StopFlag;

use super::{BenchBinaries, BuildProfile, SMOKE_DURATION, build, kept};
use crate::error::Result;
use crate::workspace::Workspace;

/// The full size; `binaries` are of the release.
pub(super) fn run(
    rounds: Option<usize>,
    duration: Option<Duration>,
    binaries: &BenchBinaries,
    workspace: &Workspace,
) -> Result<()> {
    let guided = crate::pgo::build_last(workspace)?;
    let options = PgoBenchOptions {
        size: BenchSize::Full,
        rounds: rounds.unwrap_or(pgo::ROUNDS),
        duration: duration.unwrap_or(pgo::DURATION),
        builds: [binaries.folder.join("vermeil"), guided.join("vermeil")],
        repository: workspace.root.clone(),
    };
    let report = pgo::run(&options, &StopFlag::on_signals()?)?;
    println!("\n{}", report.to_text());
    let outputs = report.write(&workspace.root)?;
    kept(&outputs.rows, &outputs.page);
    Ok(())
}

/// The smoke size: the tests' build in place of both.
pub(super) fn smoke(workspace: &Workspace) -> Result<()> {
    let vermeil = build(workspace, BuildProfile::Dev)?.join("vermeil");
    let options = PgoBenchOptions {
        size: BenchSize::Smoke,
        rounds: 1,
        duration: SMOKE_DURATION,
        builds: [vermeil.clone(), vermeil],
        repository: workspace.root.clone(),
    };
    let report = pgo::smoke(&options, &StopFlag::on_signals()?)?;
    println!("\n{}", report.to_text());
    Ok(())
}
