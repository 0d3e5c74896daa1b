//! `cargo xtask test numa`: the server on a machine with four memory nodes, which is emulated.
//!
//! Debian's kernel runs in qemu (plain emulation, 16 cpus, four nodes with a Dell R905's distances, a card with four queues that
//! is attached to node 1) with a static binary. What is done there is in `numa/guest.sh`, what is sent to it in
//! `numa/host.sh`. It takes a minute or two beside building; where the emulator cannot be had it is skipped, loudly.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use vermeil_bench::peers::find_program;

use crate::error::{Error, Result};
use crate::packages;
use crate::steps::run_command;
use crate::workspace::{Workspace, cargo};

const GUEST: &str = include_str!("numa/guest.sh");
const HOST: &str = include_str!("numa/host.sh");

/// What the machine's first process needs of the kernel.
const MODULES: [&str; 8] = [
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci",
    "net/core/failover",
    "drivers/net/net_failover",
    "drivers/net/virtio_net",
];

/// What a line of the console begins with that is for us.
const MARK: &str = "VERMEIL ";

/// Longest life of the machine, in seconds. It takes 40 to 70 on two idle cores.
const LIFE_S: &str = "480";

/// The target of a binary without libraries: its C library must be linked in.
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
    let initramfs = pack(&folder, &kernel, &binary)?;
    judge(&boot(&folder, &kernel, &initramfs)?)
}

/// A kernel and where its modules are.
struct Kernel {
    image: PathBuf,
    modules: PathBuf,
}

/// Gets the emulator, the kernel and the shell. The kernel is unpacked, not installed: nothing boots from it but the emulator.
fn prepare(folder: &Path) -> Result<Kernel> {
    packages::install_emulator()?;
    for program in ["qemu-system-x86_64", "curl", "unshare", "dpkg-deb"] {
        find_program(program).ok_or_else(|| Error::form(program, "is not here"))?;
    }
    let unpacked = folder.join("debian");
    if !unpacked.join("boot").exists() || !unpacked.join("bin/busybox").exists() {
        let script = "set -e
            kernel=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \\(linux-image-[0-9].*\\)/\\1/p' | head -n 1)
            for package in $kernel busybox-static; do apt-get -q download $package; done
            for file in *.deb; do dpkg-deb -x $file debian; rm $file; done";
        run_command(Command::new("sh").args(["-c", script]).current_dir(folder))?;
    }
    let only = |folder: PathBuf, start: &str| {
        let entries = fs::read_dir(&folder).map_err(Error::path("read", &folder))?;
        let mut paths = entries.flatten().map(|entry| entry.path());
        let is_it =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start));
        paths.find(is_it).ok_or_else(|| Error::form(folder.display(), format!("has no {start}*")))
    };
    Ok(Kernel {
        image: only(unpacked.join("boot"), "vmlinuz-")?,
        modules: only(unpacked.join("lib/modules"), "")?.join("kernel"),
    })
}

/// Builds the binary without libraries, in a folder of its own because the flag changes everything.
fn build(workspace: &Workspace) -> Result<PathBuf> {
    let target = workspace.target.join("static");
    let mut command = cargo();
    command.args(["build", "--package", "vermeil-cli", "--target", TARGET]).current_dir(&workspace.root);
    command.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", "-C target-feature=+crt-static");
    run_command(&mut command)?;
    Ok(target.join(TARGET).join("debug/vermeil"))
}

/// Makes the file system that the machine starts with.
fn pack(folder: &Path, kernel: &Kernel, binary: &Path) -> Result<PathBuf> {
    let root = folder.join("root");
    let _ = fs::remove_dir_all(&root);
    for name in ["bin", "lib", "proc", "sys", "dev", "run", "tmp", "srv"] {
        let path = root.join(name);
        fs::create_dir_all(&path).map_err(Error::path("create", &path))?;
    }
    let copy = |from: PathBuf, to: &str| {
        fs::copy(&from, root.join(to)).map_err(Error::path("copy", &from)).map(|_bytes| ())
    };
    copy(folder.join("debian/bin/busybox"), "bin/busybox")?;
    copy(binary.to_owned(), "bin/vermeil")?;
    for module in MODULES {
        let name = module.rsplit_once('/').map_or(module, |(_, name)| name);
        copy(kernel.modules.join(format!("{module}.ko")), &format!("lib/{name}.ko"))?;
    }
    let init = root.join("init");
    fs::write(&init, GUEST).map_err(Error::path("write", &init))?;
    let script = "set -e; chmod +x init; strip bin/vermeil || true
        find . | bin/busybox cpio -o -H newc 2> /dev/null | gzip -1 > ../initramfs";
    run_command(Command::new("sh").args(["-c", script]).current_dir(&root))?;
    Ok(folder.join("initramfs"))
}

/// Runs the machine to its end; what its console said to us.
fn boot(folder: &Path, kernel: &Kernel, initramfs: &Path) -> Result<Vec<String>> {
    let (script, console) = (folder.join("host.sh"), folder.join("console"));
    fs::write(&script, HOST).map_err(Error::path("write", &script))?;
    let _ = fs::remove_file(&console);
    let mut command = Command::new("timeout");
    command.args([LIFE_S, "unshare", "-n", "sh"]).arg(&script).args([&kernel.image, initramfs, &console]);
    // Ended late, it has said something all the same, which is what counts.
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
