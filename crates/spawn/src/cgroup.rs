//! The cgroup (version 2) of a profile: made when first needed, with its bounds.
//!
//! Leaves out putting programs into it (`child.rs`), and removing it, which its administrator does when the site goes.

use crate::profile::Cgroup;
use rustix::{
    fs::{CWD, Mode, OFlags, mkdirat, openat},
    io::{Errno, Result, write},
};
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

/// `cpu.max` counts per period; this is the kernel's default of 100 ms, in microseconds.
const CPU_PERIOD_US: u64 = 100_000;

/// Opens the cgroup's folder, and the file through which a process that runs already moves there.
///
/// # Errors
/// `ENOENT` when a controller's file is not there: then its bound would not hold.
pub(crate) fn open(cgroup: &Cgroup) -> Result<(OwnedFd, OwnedFd)> {
    let folder = open_or_make(cgroup)?;
    let members = openat(&folder, "cgroup.procs", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    Ok((folder, members))
}

fn open_or_make(cgroup: &Cgroup) -> Result<OwnedFd> {
    match open_folder(&cgroup.folder) {
        Err(Errno::NOENT) => {
            match mkdirat(CWD, &cgroup.folder, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            let folder = open_folder(&cgroup.folder)?;
            bound(folder.as_fd(), cgroup).inspect_err(|_| {
                // Found without its bounds, it would be taken for made.
                let _ = rustix::fs::rmdir(&cgroup.folder);
            })?;
            Ok(folder)
        }
        opened => opened,
    }
}

fn open_folder(path: &Path) -> Result<OwnedFd> {
    openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn bound(folder: BorrowedFd<'_>, cgroup: &Cgroup) -> Result<()> {
    if let Some(bytes) = cgroup.memory_bytes {
        put(folder, "memory.max", &bytes.to_string())?;
    }
    if let Some(thousandths) = cgroup.cpu_thousandths {
        let quota_us = u64::from(thousandths) * CPU_PERIOD_US / 1000;
        put(folder, "cpu.max", &format!("{quota_us} {CPU_PERIOD_US}"))?;
    }
    if let Some(processes) = cgroup.processes {
        put(folder, "pids.max", &processes.to_string())?;
    }
    Ok(())
}

fn put(folder: BorrowedFd<'_>, file: &str, text: &str) -> Result<()> {
    let file = openat(folder, file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    write(file, text.as_bytes()).map(drop)
}
