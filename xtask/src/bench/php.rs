//! `cargo xtask bench php`: builds the server, and has it run beside nginx and Apache.

use std::time::Duration;

use vermeil_bench::php::{self, Options};
use vermeil_bench::size::Size;
use vermeil_bench::stop::Stop;

use super::{Profile, SMOKE_DURATION, build, keep, show};
use crate::error::Result;
use crate::workspace::Workspace;

/// The full size.
pub(super) fn run(rounds: usize, duration: Duration, workspace: &Workspace) -> Result<()> {
    let options = options(workspace, Profile::Release)?;
    let options = Options { size: Size::Full, rounds, duration, ..options };
    keep(&php::run(&options, &Stop::on_signals()?)?, workspace)
}

/// The smoke size.
pub(super) fn smoke(workspace: &Workspace) -> Result<()> {
    show(&php::smoke(&options(workspace, Profile::Dev)?, &Stop::on_signals()?)?);
    Ok(())
}

/// The options of the smoke size, with binaries of `profile`.
fn options(workspace: &Workspace, profile: Profile) -> Result<Options> {
    Ok(Options {
        size: Size::Smoke,
        rounds: 1,
        duration: SMOKE_DURATION,
        vermeil: build(workspace, profile)?.join("vermeil"),
        repository: workspace.root.clone(),
    })
}
