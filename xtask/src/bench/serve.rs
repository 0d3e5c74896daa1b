//! `cargo xtask bench serve`: builds servers and floors, and runs the bench.

use std::time::Duration;

use vermeil_bench::serve::plan::Server;
use vermeil_bench::serve::report::Report;
use vermeil_bench::serve::{self, Options, Outputs};
use vermeil_bench::size::Size;
use vermeil_bench::stop::Stop;

use super::{BuildProfile, SMOKE_DURATION, build, kept};
use crate::error::Result;
use crate::workspace::Workspace;

/// The full size, of all servers if none are given.
pub(super) fn run(
    rounds: usize,
    duration: Duration,
    servers: &[Server],
    workspace: &Workspace,
) -> Result<()> {
    let options = options(workspace, BuildProfile::Release, servers)?;
    let options = Options { size: Size::Full, rounds, duration, ..options };
    let report = serve::run(&options, &Stop::on_signals()?)?;
    show(&report);
    if !servers.is_empty() {
        println!("\nnot kept: only some servers ran");
        return Ok(());
    }
    let outputs = Outputs::of(&workspace.root);
    report.write(&outputs)?;
    kept(&outputs.rows, &outputs.page);
    Ok(())
}

/// The smoke size.
pub(super) fn smoke(servers: &[Server], workspace: &Workspace) -> Result<()> {
    let options = options(workspace, BuildProfile::Dev, servers)?;
    show(&serve::smoke(&options, &Stop::on_signals()?)?);
    Ok(())
}

fn show(report: &Report) {
    println!("\n{}", report.to_text());
}

/// The options of the smoke size, with binaries of `profile`.
fn options(workspace: &Workspace, profile: BuildProfile, servers: &[Server]) -> Result<Options> {
    let binaries = build(workspace, profile)?;
    Ok(Options {
        size: Size::Smoke,
        rounds: 1,
        duration: SMOKE_DURATION,
        servers: if servers.is_empty() { Server::ALL.to_vec() } else { servers.to_vec() },
        vermeil: binaries.join("vermeil"),
        floor: binaries.join("vermeil-floor"),
        repository: workspace.root.clone(),
    })
}
