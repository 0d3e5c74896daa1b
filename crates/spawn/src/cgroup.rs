//! The cgroups (version 2) of profiles: folders made on first use, and their bounds.
//!
//! A folder that exists already gets the same bounds as a folder made here. For example, an
//! administrator or an earlier run made the folder. The spawner writes the bounds when a profile is
//! first used. The spawner writes the bounds again when the folder was replaced, or was bounded for
//! another profile in between. The bounds are checked once a second; every other start costs one
//! `fstat`.
//!
//! Leaves out putting programs into the cgroup (`child.rs`), and removing the cgroup, which the
//! administrator does when the site is removed. Tested in `cgroup/tests.rs`, and with real cgroups
//! in `tests/processes/rights.rs`.

use crate::{error::StartStep, path_check::Refused, profile::Cgroup, reply::at};
use rustix::{
    fs::{CWD, Mode, OFlags, fstat, mkdirat, openat},
    io::{Errno, Result, read, write},
};
use std::{
    collections::HashMap,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

#[cfg(test)]
mod tests;

/// `cpu.max` counts per period; this is the kernel's default of 100 ms, in microseconds.
const CPU_PERIOD_US: u64 = 100_000;

/// The content of a bound's file when there is no bound.
const UNBOUNDED: &str = "max";

/// How long written bounds are trusted: another instance's spawner may have written others. Each
/// look reads some files of a few bytes.
const LOOK: Duration = Duration::from_secs(1);

/// Bytes read from a bound's file; the file has two numbers at most.
const BOUND_BYTES: usize = 64;

/// The cgroups of a spawner's profiles, with their state.
#[derive(Default)]
pub(crate) struct Cgroups {
    folders: HashMap<PathBuf, CgroupState>,
}

/// The state of one folder.
#[derive(Default)]
struct CgroupState {
    /// The bounds that any profile has. The spawner may reset these bounds. All other bounds belong
    /// to the administrator.
    named: [bool; 3],
    /// The folder that was bounded last, the cgroup it was bounded for, and the time of the check.
    bounded: Option<(FolderId, Cgroup, Instant)>,
}

/// The identity of a folder, independent of its name: device and inode number.
type FolderId = (u64, u64);

/// Whether the folder existed already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FolderOrigin {
    Made,
    Found,
}

impl Cgroups {
    /// Records a profile's cgroup, before any program is started there.
    pub(crate) fn learn(&mut self, cgroup: &Cgroup) {
        let known = self.folders.entry(cgroup.folder.clone()).or_default();
        for (named, (_, bound)) in known.named.iter_mut().zip(bounds(cgroup)) {
            *named |= bound.is_some();
        }
    }

    /// Opens the cgroup's folder and its `cgroup.procs`, through which a running process moves
    /// there. The bounds hold when this returns.
    ///
    /// # Errors
    ///
    /// With the path of the folder or file that is not available.
    pub(crate) fn open(&mut self, cgroup: &Cgroup) -> std::result::Result<(OwnedFd, OwnedFd), Refused> {
        let failed = |errno| (cgroup.folder.clone(), at(StartStep::Cgroup)(errno));
        let (folder, origin) = open_or_make(&cgroup.folder).map_err(failed)?;
        let found = fstat(&folder).map_err(failed)?;
        let which = (found.st_dev, found.st_ino);
        if !self.is_bounded(which, cgroup) {
            self.bound(folder.as_fd(), which, cgroup).map_err(|(file, errno)| {
                if origin == FolderOrigin::Made {
                    let _ = rustix::fs::rmdir(&cgroup.folder);
                }
                (cgroup.folder.join(file), at(StartStep::Bounds)(errno))
            })?;
        }
        let members = openat(&folder, "cgroup.procs", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
        let members =
            members.map_err(|errno| (cgroup.folder.join("cgroup.procs"), at(StartStep::Cgroup)(errno)));
        Ok((folder, members?))
    }

    fn is_bounded(&self, which: FolderId, cgroup: &Cgroup) -> bool {
        let known = self.folders.get(&cgroup.folder).and_then(|known| known.bounded.as_ref());
        known.is_some_and(|(folder, last, looked)| {
            *folder == which && last == cgroup && looked.elapsed() < LOOK
        })
    }

    /// Makes the bounds hold in `folder`; a failure has the path of the file.
    fn bound(
        &mut self,
        folder: BorrowedFd<'_>,
        which: FolderId,
        cgroup: &Cgroup,
    ) -> std::result::Result<(), (&'static str, Errno)> {
        let known = self.folders.entry(cgroup.folder.clone()).or_default();
        // After a failure the bounds in the folder are unknown.
        known.bounded = None;
        for ((file, bound), named) in bounds(cgroup).into_iter().zip(known.named) {
            let done = match bound {
                Some(bound) => put(folder, file, &bound),
                None if named => match put(folder, file, UNBOUNDED) {
                    // Without the controller there is no bound to remove.
                    Err(Errno::NOENT) => Ok(()),
                    done => done,
                },
                None => Ok(()),
            };
            done.map_err(|errno| (file, errno))?;
        }
        known.bounded = Some((which, cgroup.clone(), Instant::now()));
        Ok(())
    }
}

/// The bounds' files, and their wanted content.
fn bounds(cgroup: &Cgroup) -> [(&'static str, Option<String>); 3] {
    let cpu = cgroup.cpu_thousandths.map(|thousandths| {
        let quota_us = u64::from(thousandths) * CPU_PERIOD_US / 1000;
        format!("{quota_us} {CPU_PERIOD_US}")
    });
    [
        ("memory.max", cgroup.memory_bytes.map(|bytes| bytes.to_string())),
        ("cpu.max", cpu),
        ("pids.max", cgroup.processes.map(|processes| processes.to_string())),
    ]
}

fn open_or_make(path: &Path) -> Result<(OwnedFd, FolderOrigin)> {
    match open_folder(path) {
        Err(Errno::NOENT) => {
            let origin = match mkdirat(CWD, path, Mode::from_raw_mode(0o755)) {
                Ok(()) => FolderOrigin::Made,
                Err(Errno::EXIST) => FolderOrigin::Found,
                Err(errno) => return Err(errno),
            };
            Ok((open_folder(path)?, origin))
        }
        opened => Ok((opened?, FolderOrigin::Found)),
    }
}

fn open_folder(path: &Path) -> Result<OwnedFd> {
    openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Writes a bound, unless the file has it already, because a file without write permission may
/// still have the right content.
fn put(folder: BorrowedFd<'_>, file: &str, bound: &str) -> Result<()> {
    if stands(folder, file, bound)? {
        return Ok(());
    }
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC;
    let file = openat(folder, file, flags, Mode::empty())?;
    write(file, bound.as_bytes()).map(drop)
}

fn stands(folder: BorrowedFd<'_>, file: &str, bound: &str) -> Result<bool> {
    let file = openat(folder, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = [0; BOUND_BYTES];
    let bytes = read(file, &mut text)?;
    let text = text[..bytes].trim_ascii();
    // In `cpu.max` the period follows the quota.
    Ok(text == bound.as_bytes() || bound == UNBOUNDED && text.starts_with(UNBOUNDED.as_bytes()))
}
