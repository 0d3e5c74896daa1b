//! `cargo xtask bench serve`: builds servers and floors, and runs the bench.

use std::time::Duration;

use vermeil_bench::serve::plan::ServedBy;
use vermeil_bench::serve::report::ServeBenchReport;
use vermeil_bench::serve::{self, ServeBenchOptions, ServeOutputs};
use vermeil_bench::size::BenchSize;
use vermeil_bench::stop::StopFlag;

use super::{BuildProfile, SMOKE_DURATION, build, kept};
use crate::error::Result;
use crate::workspace::Workspace;

/// The full size, of all servers if none are given.
pub(super) fn run(
    rounds: usize,
    duration: Duration,
    servers: &[ServedBy],
    workspace: &Workspace,
) -> Result<()> {
    let options = options(workspace, BuildProfile::Release, servers)?;
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
    let options = options(workspace, BuildProfile::Dev, servers)?;
    show(&serve::smoke(&options, &StopFlag::on_signals()?)?);
    Ok(())
}

fn show(report: &ServeBenchReport) {
    println!("\n{}", report.to_text());
}

/// The options of the smoke size, with binaries of `profile`.
fn options(workspace: &Workspace, profile: BuildProfile, servers: &[ServedBy]) -> Result<ServeBenchOptions> {
    let binaries = build(workspace, profile)?;
    Ok(ServeBenchOptions {
        size: BenchSize::Smoke,
        rounds: 1,
        duration: SMOKE_DURATION,
        servers: if servers.is_empty() { ServedBy::ALL.to_vec() } else { servers.to_vec() },
        vermeil: binaries.join("vermeil"),
        floor: binaries.join("vermeil-floor"),
        repository: workspace.root.clone(),
    })
}
