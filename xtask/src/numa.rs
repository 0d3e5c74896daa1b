//! `cargo xtask test numa`: the server on an emulated machine with four memory nodes.
//!
//! Debian's kernel runs in qemu (plain emulation, 16 cpus, four nodes with a Dell R905's distances,
//! a card with four queues attached to node 1) with a static binary. `numa/pack.rs` makes the
//! initial file system; the scripts in `numa/guest/` run on the machine, and `numa/host.sh` sends
//! requests. If the emulator is not available, the test is skipped with a notice.

mod pack;
mod restart;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use vermeil_bench::peers::find_program;

use crate::error::{Error, Result};
use crate::packages;
use crate::steps::run_command;
use crate::workspace::{Workspace, cargo};
use pack::{GuestKernel, pack};

const HOST: &str = include_str!("numa/host.sh");

/// The beginning of a console line for this test.
const MARK: &str = "VERMEIL ";

/// Longest life of the machine, in seconds: several times the usual time on two idle cores.
const LIFE_S: &str = "1200";

/// The target of a static binary, which must include the C library.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs the command.
pub(crate) fn run() -> Result<()> {
    let workspace = Workspace::load()?;
    let folder = workspace.target.join("numa");
    fs::create_dir_all(&folder).map_err(Error::path("create", &folder))?;
    let kernel = match prepare(&folder) {
        Ok(kernel) => kernel,
        Err(why) => {
            println!("\n******** SKIPPED: the emulated NUMA machine cannot be had: {why} ********\n");
            return Ok(());
        }
    };
    let binary = build(&workspace)?;
    println!("{}\n", restart::measure(&binary, &folder)?);
    let initramfs = pack(&folder, &kernel, &binary)?;
    judge(&boot(&folder, &kernel, &initramfs)?)
}

/// Installs the emulator, the kernel and the shell.
fn prepare(folder: &Path) -> Result<GuestKernel> {
    packages::install_emulator()?;
    for program in ["qemu-system-x86_64", "curl", "unshare", "dpkg-deb"] {
        find_program(program).ok_or_else(|| Error::form(program, "is not here"))?;
    }
    GuestKernel::fetch(folder)
}

/// Builds the static binary, in a separate folder because the flag changes everything.
fn build(workspace: &Workspace) -> Result<PathBuf> {
    let target = workspace.target.join("static");
    let mut command = cargo();
    command.args(["build", "--package", "vermeil-cli", "--target", TARGET]).current_dir(&workspace.root);
    command.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", "-C target-feature=+crt-static");
    run_command(&mut command)?;
    Ok(target.join(TARGET).join("debug/vermeil"))
}

/// Runs the machine to its end; returns the marked lines of the console.
fn boot(folder: &Path, kernel: &GuestKernel, initramfs: &Path) -> Result<Vec<String>> {
    let (script, console) = (folder.join("host.sh"), folder.join("console"));
    fs::write(&script, HOST).map_err(Error::path("write", &script))?;
    let _ = fs::remove_file(&console);
    let mut command = Command::new("timeout");
    command.args([LIFE_S, "unshare", "-n", "sh"]).arg(&script).args([&kernel.image, initramfs, &console]);
    // A machine that ended late has still printed lines, and the lines count.
    let ended = run_command(&mut command);
    let said = fs::read(&console).map_err(Error::path("read", &console))?;
    let said = String::from_utf8_lossy(&said);
    let lines = said.lines().filter_map(|line| Some(line.trim_end().split_once(MARK)?.1.to_owned()));
    let lines: Vec<String> = lines.collect();
    for line in &lines {
        println!("{line}");
    }
    match ended {
        Err(error) if lines.is_empty() => Err(error),
        _ => Ok(lines),
    }
}

/// Whether everything passed, to the last line.
fn judge(lines: &[String]) -> Result<()> {
    let count = |word: &str| lines.iter().filter(|line| line.starts_with(word)).count();
    let (passed, failed) = (count("PASS "), count("FAIL "));
    println!("\n{passed} passed, {failed} failed");
    match lines.last().map(String::as_str) {
        Some("DONE") if failed == 0 => Ok(()),
        Some("DONE") => Err(Error::Reported),
        _ => Err(Error::form("the emulated machine", "did not come to its end")),
    }
}
