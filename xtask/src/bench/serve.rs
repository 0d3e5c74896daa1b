//! `cargo xtask bench serve`: builds servers and floors, and runs the bench.

use std::time::Duration;

use vermeil_bench::serve::plan::ServedBy;
use vermeil_bench::serve::report::ServeBenchReport;
use vermeil_bench::serve::{self, ServeBenchOptions, ServeOutputs};
use vermeil_bench::size::BenchSize;
use vermeil_bench::stop::StopFlag;

use super::{BenchBinaries, BuildProfile, SMOKE_DURATION, build, kept};
use crate::error::Result;
use crate::workspace::Workspace;

/// The full size, of all servers if none are given.
pub(super) fn run(
    rounds: usize,
    duration: Duration,
    servers: &[ServedBy],
    binaries: &BenchBinaries,
    workspace: &Workspace,
) -> Result<()> {
    let options = options(workspace, binaries, servers);
    let options = ServeBenchOptions { size: BenchSize::Full, rounds, duration, ..options };
    let report = serve::run(&options, &StopFlag::on_signals()?)?;
    show(&report);
    if !servers.is_empty() {
        println!("\nnot kept: only some servers ran");
        return Ok(());
    }
    let outputs = ServeOutputs::of(&workspace.root);
    report.write(&outputs)?;
    kept(&outputs.rows, &outputs.page);
    Ok(())
}

/// The smoke size.
pub(super) fn smoke(servers: &[ServedBy], workspace: &Workspace) -> Result<()> {
    let folder = build(workspace, BuildProfile::Dev)?;
    let options = options(workspace, &BenchBinaries { folder, build: "dev" }, servers);
    show(&serve::smoke(&options, &StopFlag::on_signals()?)?);
    Ok(())
}

fn show(report: &ServeBenchReport) {
    println!("\n{}", report.to_text());
}

/// The options of the smoke size, with these binaries.
fn options(workspace: &Workspace, binaries: &BenchBinaries, servers: &[ServedBy]) -> ServeBenchOptions {
    ServeBenchOptions {
        size: BenchSize::Smoke,
        rounds: 1,
        duration: SMOKE_DURATION,
        servers: if servers.is_empty() { ServedBy::ALL.to_vec() } else { servers.to_vec() },
        vermeil: binaries.folder.join("vermeil"),
        floor: binaries.folder.join("vermeil-floor"),
        build: binaries.build,
        repository: workspace.root.clone(),
    }
}
