//! `cargo xtask bench runtime`: builds the binary of single runs, and runs the bench.

use vermeil_bench::runtime::plan::{BenchProgram, RuntimeVariant};
use vermeil_bench::runtime::report::RuntimeBenchReport;
use vermeil_bench::runtime::{self, RuntimeBenchOptions, RuntimeOutputs};
use vermeil_bench::size::BenchSize;
use vermeil_bench::stop::StopFlag;

use super::{BenchBinaries, BuildProfile, build, kept};
use crate::error::Result;
use crate::workspace::Workspace;

/// The full size of these programs and variants; of all if none are given.
pub(super) fn run(
    rounds: usize,
    programs: &[BenchProgram],
    variants: &[RuntimeVariant],
    binaries: &BenchBinaries,
    workspace: &Workspace,
) -> Result<()> {
    let some = !programs.is_empty() || !variants.is_empty();
    let options = RuntimeBenchOptions {
        size: BenchSize::Full,
        rounds,
        programs: if programs.is_empty() { BenchProgram::ALL.to_vec() } else { programs.to_vec() },
        variants: if variants.is_empty() { RuntimeVariant::ALL.to_vec() } else { variants.to_vec() },
        runs: binaries.folder.join("vermeil-runs"),
        repository: workspace.root.clone(),
    };
    let report = runtime::run(&options, &StopFlag::on_signals()?)?;
    print(&report);
    if some {
        println!("\nnot kept: only some programs or variants ran");
        return Ok(());
    }
    let outputs = RuntimeOutputs::of(&workspace.root);
    report.write(&outputs)?;
    kept(&outputs.rows, &outputs.page);
    Ok(())
}

/// The smoke size.
pub(super) fn smoke(workspace: &Workspace) -> Result<()> {
    let options = RuntimeBenchOptions {
        size: BenchSize::Smoke,
        rounds: 1,
        programs: BenchProgram::ALL.to_vec(),
        variants: runtime::smoke_variants(),
        runs: build(workspace, BuildProfile::Dev)?.join("vermeil-runs"),
        repository: workspace.root.clone(),
    };
    print(&runtime::smoke(&options, &StopFlag::on_signals()?)?);
    Ok(())
}

fn print(report: &RuntimeBenchReport) {
    println!("\n{}", report.to_text());
}

/// Reads the name of a program.
pub(super) fn program(text: &str) -> std::result::Result<BenchProgram, String> {
    let names = || BenchProgram::ALL.map(BenchProgram::name).join(", ");
    BenchProgram::from_name(text).ok_or_else(|| format!("the programs are {}", names()))
}

/// Reads the name of a policy or peer.
pub(super) fn variant(text: &str) -> std::result::Result<RuntimeVariant, String> {
    let names = || RuntimeVariant::ALL.map(RuntimeVariant::name).join(", ");
    RuntimeVariant::from_name(text).ok_or_else(|| format!("the policies and peers are {}", names()))
}
