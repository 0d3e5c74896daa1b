//! The initial contents of the emulated machine: a kernel, and a file system in memory with a
//! shell, the server, the test programs and the scripts.
//!
//! The kernel is unpacked, not installed, because only the emulator boots it. PHP is this
//! machine's, with its libraries; without PHP the guest skips that part and prints a note.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use vermeil_bench::peers::find_program;

use crate::error::{Error, Result};
use crate::steps::run_command;

/// The kernel modules of the machine's first process.
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

const INIT: &str = include_str!("guest/init.sh");

/// The parts of the test, in order.
const PARTS: [(&str, &str); 7] = [
    ("1-nodes.sh", include_str!("guest/1-nodes.sh")),
    ("2-php.sh", include_str!("guest/2-php.sh")),
    ("3-stuck.sh", include_str!("guest/3-stuck.sh")),
    ("4-modes.sh", include_str!("guest/4-modes.sh")),
    ("5-undo.sh", include_str!("guest/5-undo.sh")),
    ("6-bounds.sh", include_str!("guest/6-bounds.sh")),
    ("7-changes.sh", include_str!("guest/7-changes.sh")),
];

/// The users of a PHP pool.
const PASSWD: &str = "root:x:0:0::/:/bin/sh\nwww-data:x:33:33::/:/bin/sh\n";
const GROUP: &str = "root:x:0:\nwww-data:x:33:\n";

/// A kernel and the folder of its modules.
pub(super) struct GuestKernel {
    pub(super) image: PathBuf,
    modules: PathBuf,
}

impl GuestKernel {
    /// Fetches the kernel and the shell, once.
    pub(super) fn fetch(folder: &Path) -> Result<Self> {
        let unpacked = folder.join("debian");
        if !unpacked.join("boot").exists() || !unpacked.join("bin/busybox").exists() {
            let script = "set -e
                kernel=$(apt-cache depends linux-image-amd64 |
                    sed -n 's/.*Depends: \\(linux-image-[0-9].*\\)/\\1/p' | head -n 1)
                for package in $kernel busybox-static; do apt-get -q download $package; done
                for file in *.deb; do dpkg-deb -x $file debian; rm $file; done";
            run_command(Command::new("sh").args(["-c", script]).current_dir(folder))?;
        }
        Ok(Self {
            image: only(&unpacked.join("boot"), "vmlinuz-")?,
            modules: only(&unpacked.join("lib/modules"), "")?.join("kernel"),
        })
    }
}

/// The file in a folder with this prefix.
fn only(folder: &Path, start: &str) -> Result<PathBuf> {
    let entries = fs::read_dir(folder).map_err(Error::path("read", folder))?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    let is_it =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start));
    paths.find(is_it).ok_or_else(|| Error::form(folder.display(), format!("has no {start}*")))
}

/// Makes the file system.
pub(super) fn pack(folder: &Path, kernel: &GuestKernel, server: &Path) -> Result<PathBuf> {
    let root = GuestRoot(folder.join("root"));
    let _ = fs::remove_dir_all(&root.0);
    for name in ["proc", "sys", "dev", "run", "tmp"] {
        let path = root.0.join(name);
        fs::create_dir_all(&path).map_err(Error::path("create", &path))?;
    }
    root.copy(&folder.join("debian/bin/busybox"), "bin/busybox")?;
    root.copy(server, "bin/vermeil")?;
    for module in MODULES {
        let name = module.rsplit_once('/').map_or(module, |(_, name)| name);
        root.copy(&kernel.modules.join(format!("{module}.ko")), &format!("lib/{name}.ko"))?;
    }
    root.copy_program("taskset", "usr/bin/taskset")?;
    if find_program("php-fpm8.2").is_some() {
        root.copy_program("php-fpm8.2", "usr/sbin/php-fpm")?;
    }
    root.write("etc/passwd", PASSWD)?;
    root.write("etc/group", GROUP)?;
    root.write("srv/index.html", "home\n")?;
    root.write("init", INIT)?;
    for (name, text) in PARTS {
        root.write(&format!("parts/{name}"), text)?;
    }
    let script = "set -e; chmod +x init; strip bin/vermeil || true
        find . | bin/busybox cpio -o -H newc 2> /dev/null | gzip -1 > ../initramfs";
    run_command(Command::new("sh").args(["-c", script]).current_dir(&root.0))?;
    Ok(folder.join("initramfs"))
}

/// The file system as a folder.
struct GuestRoot(PathBuf);

impl GuestRoot {
    fn place(&self, name: &str) -> Result<PathBuf> {
        let place = self.0.join(name);
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder).map_err(Error::path("create", folder))?;
        }
        Ok(place)
    }

    fn copy(&self, from: &Path, name: &str) -> Result<()> {
        fs::copy(from, self.place(name)?).map_err(Error::path("copy", from)).map(|_bytes| ())
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let place = self.place(name)?;
        fs::write(&place, text).map_err(Error::path("write", &place))
    }

    /// A program of this machine, with its libraries in their usual places.
    fn copy_program(&self, program: &str, name: &str) -> Result<()> {
        let path = find_program(program).ok_or_else(|| Error::form(program, "is not here"))?;
        self.copy(&path, name)?;
        let listed = Command::new("ldd").arg(&path).output().map_err(Error::path("run", Path::new("ldd")))?;
        for library in libraries(&String::from_utf8_lossy(&listed.stdout)) {
            self.copy(Path::new(library), library.trim_start_matches('/'))?;
        }
        Ok(())
    }
}

/// The files that `ldd` lists.
fn libraries(listed: &str) -> impl Iterator<Item = &str> {
    listed.lines().filter_map(|line| line.split_ascii_whitespace().find(|word| word.starts_with('/')))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_loader_and_the_libraries_are_found() {
        let listed = "\tlinux-vdso.so.1 (0x00007ff1f0a06000)\n\
                      \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007ff1f0800000)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007ff1f0a08000)\n";
        let found: Vec<&str> = super::libraries(listed).collect();
        assert_eq!(found, ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
    }
}
