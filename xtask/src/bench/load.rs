//! `cargo xtask bench load` and `find-max`: builds server and load, and has them run.

use std::time::Duration;

use vermeil_bench::size::Size;
use vermeil_bench::stop::Stop;
use vermeil_bench::{findmax, load};

use super::{Profile, SMOKE_DURATION, build, keep, show};
use crate::error::Result;
use crate::workspace::Workspace;

/// The full size of `load`.
pub(super) fn run(rounds: usize, duration: Duration, workspace: &Workspace) -> Result<()> {
    let options = load_options(workspace, Profile::Release)?;
    let options = load::Options { size: Size::Full, rounds, duration, ..options };
    keep(&load::run(&options, &Stop::on_signals()?)?, workspace)
}

/// The smoke size of `load`.
pub(super) fn smoke(workspace: &Workspace) -> Result<()> {
    let options = load_options(workspace, Profile::Dev)?;
    show(&load::smoke(&options, &Stop::on_signals()?)?);
    Ok(())
}

fn load_options(workspace: &Workspace, profile: Profile) -> Result<load::Options> {
    Ok(load::Options {
        size: Size::Smoke,
        rounds: 1,
        duration: SMOKE_DURATION,
        vermeil: build(workspace, profile)?.join("vermeil"),
        repository: workspace.root.clone(),
    })
}

/// The full size of `find-max`.
pub(super) fn find_max(window: Duration, workspace: &Workspace) -> Result<()> {
    let options = find_max_options(workspace, Profile::Release)?;
    let options = findmax::Options { size: Size::Full, window, ..options };
    keep(&findmax::run(&options, &Stop::on_signals()?)?, workspace)
}

/// The smoke size of `find-max`.
pub(super) fn find_max_smoke(workspace: &Workspace) -> Result<()> {
    let options = find_max_options(workspace, Profile::Dev)?;
    show(&findmax::smoke(&options, &Stop::on_signals()?)?);
    Ok(())
}

fn find_max_options(workspace: &Workspace, profile: Profile) -> Result<findmax::Options> {
    Ok(findmax::Options {
        size: Size::Smoke,
        // Trials shorter than a second are not trusted.
        window: Duration::from_secs(1),
        vermeil: build(workspace, profile)?.join("vermeil"),
        repository: workspace.root.clone(),
    })
}
