//! `cargo xtask pgo`: the release with profile-guided optimization.
//!
//! Builds `vermeil` with counters, loads a server of this build in all the ways of the bench
//! `vermeil_bench::pgo`, and builds again with the counts. The counts of an older commit still
//! help: the compiler ignores the counts of functions that have changed. Not part of
//! `cargo xtask test`, because everything is built twice.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use vermeil_bench::pgo;
use vermeil_bench::stop::StopFlag;

use crate::error::{Error, Result};
use crate::packages;
use crate::steps::run_command;
use crate::workspace::{RELEASE, Workspace, cargo};

/// Makes the compiler add the counters.
const COUNTED: &str = "-Cprofile-generate";
/// The end of the name of the merged counts.
const PROFILE: &str = "profdata";

/// Runs the command.
pub(crate) fn run() -> Result<()> {
    let workspace = Workspace::load()?;
    packages::install_for_pgo()?;
    let merge = llvm_profdata(&workspace)?;
    let folder = folder(&workspace);
    let counts = folder.join("counts");
    if counts.exists() {
        fs::remove_dir_all(&counts).map_err(Error::path("remove", &counts))?;
    }
    fs::create_dir_all(&counts).map_err(Error::path("make", &counts))?;
    let counted = build(&workspace, "counted", COUNTED)?;
    pgo::train(&counted.join("vermeil"), &counts, &StopFlag::on_signals()?)?;
    let profile = merged(&merge, &counts, &folder)?;
    let binary = build_with(&workspace, &profile)?.join("vermeil");
    println!("\nthe profile-guided release: {}", binary.display());
    Ok(())
}

/// Builds with the counts of the last `cargo xtask pgo`; returns the folder of the binaries.
///
/// # Errors
/// There are no counts, or the build fails.
pub(crate) fn build_last(workspace: &Workspace) -> Result<PathBuf> {
    let folder = folder(workspace);
    let profile = profiles(&folder)?
        .into_iter()
        .max()
        .ok_or_else(|| Error::form(folder.display(), "no profile is here; `cargo xtask pgo` records one"))?;
    build_with(workspace, &profile)
}

fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("pgo")
}

fn build_with(workspace: &Workspace, profile: &Path) -> Result<PathBuf> {
    build(workspace, "release", &format!("-Cprofile-use={}", profile.display()))
}

/// Builds the release with one more flag of the compiler, in a target folder `name` of its own.
fn build(workspace: &Workspace, name: &str, flag: &str) -> Result<PathBuf> {
    // Named explicitly, so that build scripts and macros have no counters.
    let machine = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let target = folder(workspace).join(name);
    let mut command = cargo();
    command.args(["build", "--bins", "--target", &machine]).args(RELEASE).current_dir(&workspace.root);
    // Unlike RUSTFLAGS, not split at spaces, which the path of a profile may have.
    command.env("CARGO_TARGET_DIR", &target).env("CARGO_ENCODED_RUSTFLAGS", flag);
    run_command(&mut command)?;
    Ok(target.join(machine).join("release"))
}

/// Merges the files in `counts` into a new file in `folder`, and removes the merged files of
/// earlier runs. The name is new each time, because cargo compares the names in flags, and not the
/// contents of files.
fn merged(merge: &Path, counts: &Path, folder: &Path) -> Result<PathBuf> {
    for old in profiles(folder)? {
        fs::remove_file(&old).map_err(Error::path("remove", &old))?;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let profile = folder.join(format!("{now}.{PROFILE}"));
    run_command(Command::new(merge).arg("merge").arg("-o").arg(&profile).arg(counts))?;
    Ok(profile)
}

/// The merged counts in `folder`.
fn profiles(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder).map_err(Error::path("read", folder))?;
    let is_profile = |path: &PathBuf| path.extension().is_some_and(|extension| extension == PROFILE);
    Ok(entries.flatten().map(|entry| entry.path()).filter(is_profile).collect())
}

/// The program that merges counts, of the same version as the compiler. Installs it if missing.
fn llvm_profdata(workspace: &Workspace) -> Result<PathBuf> {
    let mut command = Command::new("rustc");
    command.args(["--print", "target-libdir"]).current_dir(&workspace.root);
    let output = command.output().map_err(Error::path("run", Path::new("rustc")))?;
    let libraries = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let program = libraries.with_file_name("bin").join("llvm-profdata");
    if !program.exists() {
        let mut install = Command::new("rustup");
        run_command(install.args(["component", "add", "llvm-tools"]).current_dir(&workspace.root))?;
    }
    match program.exists() {
        true => Ok(program),
        false => Err(Error::form(program.display(), "missing; `rustup component add llvm-tools` brings it")),
    }
}
