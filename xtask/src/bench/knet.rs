//! `cargo xtask bench knet`: builds server and load, and has them run.

use vermeil_bench::knet::{self, Options};
use vermeil_bench::size::Size;
use vermeil_bench::stop::Stop;

use super::{Profile, build, keep, show};
use crate::error::Result;
use crate::workspace::Workspace;

/// The full size.
pub(super) fn run(rounds: usize, workspace: &Workspace) -> Result<()> {
    let options = options(workspace, Profile::Release, Size::Full, rounds)?;
    keep(&knet::run(&options, &Stop::on_signals()?)?, workspace)
}

/// The smoke size; nothing where there are no namespaces, which has been said.
pub(super) fn smoke(workspace: &Workspace) -> Result<()> {
    let options = options(workspace, Profile::Dev, Size::Smoke, 1)?;
    if let Some(report) = knet::smoke(&options, &Stop::on_signals()?)? {
        show(&report);
    }
    Ok(())
}

fn options(workspace: &Workspace, profile: Profile, size: Size, rounds: usize) -> Result<Options> {
    let vermeil = build(workspace, profile)?.join("vermeil");
    Ok(Options { size, rounds, vermeil, repository: workspace.root.clone() })
}
