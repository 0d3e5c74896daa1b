//! `cargo xtask bench runtime`: builds the binary of single runs, and runs the bench.

use vermeil_bench::runtime::plan::{Program, Variant};
use vermeil_bench::runtime::report::Report;
use vermeil_bench::runtime::{self, Options, Outputs};
use vermeil_bench::size::Size;
use vermeil_bench::stop::Stop;

use super::{BuildProfile, build, kept};
use crate::error::Result;
use crate::workspace::Workspace;

/// The full size of these programs and variants; of all if none are given.
pub(super) fn run(
    rounds: usize,
    programs: &[Program],
    variants: &[Variant],
    workspace: &Workspace,
) -> Result<()> {
    let some = !programs.is_empty() || !variants.is_empty();
    let options = Options {
        size: Size::Full,
        rounds,
        programs: if programs.is_empty() { Program::ALL.to_vec() } else { programs.to_vec() },
        variants: if variants.is_empty() { Variant::ALL.to_vec() } else { variants.to_vec() },
        runs: build(workspace, BuildProfile::Release)?.join("vermeil-runs"),
        repository: workspace.root.clone(),
    };
    let report = runtime::run(&options, &Stop::on_signals()?)?;
    print(&report);
    if some {
        println!("\nnot kept: only some programs or variants ran");
        return Ok(());
    }
    let outputs = Outputs::of(&workspace.root);
    report.write(&outputs)?;
    kept(&outputs.rows, &outputs.page);
    Ok(())
}

/// The smoke size.
pub(super) fn smoke(workspace: &Workspace) -> Result<()> {
    let options = Options {
        size: Size::Smoke,
        rounds: 1,
        programs: Program::ALL.to_vec(),
        variants: runtime::smoke_variants(),
        runs: build(workspace, BuildProfile::Dev)?.join("vermeil-runs"),
        repository: workspace.root.clone(),
    };
    print(&runtime::smoke(&options, &Stop::on_signals()?)?);
    Ok(())
}

fn print(report: &Report) {
    println!("\n{}", report.to_text());
}

/// Reads the name of a program.
pub(super) fn program(text: &str) -> std::result::Result<Program, String> {
    let names = || Program::ALL.map(Program::name).join(", ");
    Program::from_name(text).ok_or_else(|| format!("the programs are {}", names()))
}

/// Reads the name of a policy or peer.
pub(super) fn variant(text: &str) -> std::result::Result<Variant, String> {
    let names = || Variant::ALL.map(Variant::name).join(", ");
    Variant::from_name(text).ok_or_else(|| format!("the policies and peers are {}", names()))
}
