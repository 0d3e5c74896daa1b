//! `cargo xtask tsan`: the unit tests of `queue` and of the runtime under LLVM's thread sanitizer.
//!
//! The sanitizer is not stable, so an environment variable makes the compiler accept it
//! (`RUSTC_BOOTSTRAP`). The standard library is not rebuilt. The sanitizer cannot see the
//! synchronisation of the test harness in that library, so the verdict ignores the harness. Not
//! part of `cargo xtask test`, because everything is built again. The sanitizer cannot see wrong
//! orderings that x86 hides; the models check orderings (`test.rs`).

use std::fs;

use crate::error::{Error, Result};
use crate::steps::run_command;
use crate::workspace::{Workspace, cargo};

/// Frames of the harness and of the channel it reports through.
const SUPPRESSED: &str = "race:test::\nrace:std::sync::mpmc\nrace:std::thread\n";

/// Runs the command.
pub(crate) fn run() -> Result<()> {
    let workspace = Workspace::load()?;
    let folder = workspace.target.join("tsan");
    let suppressions = folder.join("suppressions");
    fs::create_dir_all(&folder).map_err(Error::path("make", &folder))?;
    fs::write(&suppressions, SUPPRESSED).map_err(Error::path("write", &suppressions))?;
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut command = cargo();
    command.args([
        "test",
        "--package",
        "vermeil-queue",
        "--package",
        "vermeil",
        "--lib",
        "--target",
        &target,
    ]);
    command.current_dir(&workspace.root);
    command.env("CARGO_TARGET_DIR", &folder).env("RUSTC_BOOTSTRAP", "1");
    command.env("RUSTFLAGS", "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer");
    command.env("TSAN_OPTIONS", format!("suppressions={}", suppressions.display()));
    run_command(&mut command)
}
