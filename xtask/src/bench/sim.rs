//! `cargo xtask bench sim`: builds what simulates, and has it run.

use vermeil_bench::sim::{self, Options};
use vermeil_bench::size::Size;
use vermeil_bench::stop::Stop;

use super::{Profile, build, keep, show};
use crate::error::Result;
use crate::workspace::Workspace;

/// The full size.
pub(super) fn run(rounds: usize, workspace: &Workspace) -> Result<()> {
    let options = options(workspace, Profile::Release, Size::Full, rounds)?;
    keep(&sim::run(&options, &Stop::on_signals()?)?, workspace)
}

/// The smoke size.
pub(super) fn smoke(workspace: &Workspace) -> Result<()> {
    let options = options(workspace, Profile::Dev, Size::Smoke, 1)?;
    show(&sim::smoke(&options, &Stop::on_signals()?)?);
    Ok(())
}

fn options(workspace: &Workspace, profile: Profile, size: Size, rounds: usize) -> Result<Options> {
    let sims = build(workspace, profile)?.join("vermeil-sims");
    Ok(Options { size, rounds, sims, repository: workspace.root.clone() })
}
