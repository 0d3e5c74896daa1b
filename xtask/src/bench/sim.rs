//! `cargo xtask bench sim`: builds what simulates, and has it run.

use vermeil_bench::sim::report::Outputs;
use vermeil_bench::sim::{self, Options, Size};
use vermeil_bench::stop::Stop;

use super::Profile;
use crate::error::Result;
use crate::steps::run_command;
use crate::workspace::{Workspace, cargo};

/// The full size.
pub(super) fn run(rounds: usize, workspace: &Workspace) -> Result<()> {
    let options = options(workspace, Profile::Release, Size::Full, rounds)?;
    let report = sim::run(&options, &Stop::on_signals()?)?;
    println!("\n{}", report.to_text());
    let outputs = Outputs::of(&workspace.root);
    report.write(&outputs)?;
    println!("\nkept in {} and {}", outputs.rows.display(), outputs.page.display());
    Ok(())
}

/// The smoke size.
pub(super) fn smoke(workspace: &Workspace) -> Result<()> {
    let options = options(workspace, Profile::Dev, Size::Smoke, 1)?;
    println!("\n{}", sim::smoke(&options, &Stop::on_signals()?)?.to_text());
    Ok(())
}

fn options(workspace: &Workspace, profile: Profile, size: Size, rounds: usize) -> Result<Options> {
    let mut build = cargo();
    build.args(["build", "--package", "vermeil-bench", "--bin", "vermeil-sims"]);
    build.args(profile.flags()).current_dir(&workspace.root);
    run_command(&mut build)?;
    let sims = workspace.target.join(profile.folder()).join("vermeil-sims");
    Ok(Options { size, rounds, sims, repository: workspace.root.clone() })
}
