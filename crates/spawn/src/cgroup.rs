//! The cgroups (version 2) of profiles: made when first needed, and their bounds.
//!
//! A folder that is there already, since somebody made it or an earlier run left it, is bounded as one that is made here.
//! Bounds are written when a profile is first used, and again when its folder is another one or was bounded for another
//! profile in between, and looked at again once a second; for each other start there is one `fstat`. Leaves out putting programs into it (`child.rs`), and
//! removing it, which its administrator does when the site goes. Tested in `cgroup/tests.rs`, and with real cgroups in
//! `tests/processes/rights.rs`.

use crate::{error::Step, look::Refused, profile::Cgroup, reply::at};
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

/// What stands in the file of a bound that is none.
const UNBOUNDED: &str = "max";

/// How long bounds are taken to stand: another instance's spawner may have written others. Guess: some reads of files a second.
const LOOK: Duration = Duration::from_secs(1);

/// Bytes of a bound's file that are looked at; it has two numbers at most.
const BOUND_BYTES: usize = 64;

/// What a spawner knows of the cgroups of its profiles.
#[derive(Default)]
pub(crate) struct Cgroups {
    folders: HashMap<PathBuf, Known>,
}

/// What is known of one folder.
#[derive(Default)]
struct Known {
    /// Which of the bounds any profile has: those are ours to take out. Others are somebody else's.
    named: [bool; 3],
    /// The folder that was bounded last, for what, and when that was looked at.
    bounded: Option<(Which, Cgroup, Instant)>,
}

/// A folder, whatever its name: its device and its number.
type Which = (u64, u64);

/// Whether a folder was there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Made,
    Found,
}

impl Cgroups {
    /// Takes note of a profile's cgroup, before any program is started there.
    pub(crate) fn learn(&mut self, cgroup: &Cgroup) {
        let known = self.folders.entry(cgroup.folder.clone()).or_default();
        for (named, (_, bound)) in known.named.iter_mut().zip(bounds(cgroup)) {
            *named |= bound.is_some();
        }
    }

    /// Opens the cgroup's folder, whose bounds hold then, and the file through which a process that runs already moves there.
    ///
    /// # Errors
    /// With the path of the folder or the file that is not to be had.
    pub(crate) fn open(&mut self, cgroup: &Cgroup) -> std::result::Result<(OwnedFd, OwnedFd), Refused> {
        let failed = |errno| (cgroup.folder.clone(), at(Step::Cgroup)(errno));
        let (folder, origin) = open_or_make(&cgroup.folder).map_err(failed)?;
        let found = fstat(&folder).map_err(failed)?;
        let which = (found.st_dev, found.st_ino);
        if !self.is_bounded(which, cgroup) {
            self.bound(folder.as_fd(), which, cgroup).map_err(|(file, errno)| {
                if origin == Origin::Made {
                    let _ = rustix::fs::rmdir(&cgroup.folder);
                }
                (cgroup.folder.join(file), at(Step::Bounds)(errno))
            })?;
        }
        let members = openat(&folder, "cgroup.procs", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
        let members = members.map_err(|errno| (cgroup.folder.join("cgroup.procs"), at(Step::Cgroup)(errno)));
        Ok((folder, members?))
    }

    fn is_bounded(&self, which: Which, cgroup: &Cgroup) -> bool {
        let known = self.folders.get(&cgroup.folder).and_then(|known| known.bounded.as_ref());
        known.is_some_and(|(folder, last, looked)| {
            *folder == which && last == cgroup && looked.elapsed() < LOOK
        })
    }

    /// Has the bounds hold in `folder`; otherwise says whose file is in the way.
    fn bound(
        &mut self,
        folder: BorrowedFd<'_>,
        which: Which,
        cgroup: &Cgroup,
    ) -> std::result::Result<(), (&'static str, Errno)> {
        let known = self.folders.entry(cgroup.folder.clone()).or_default();
        // What a failure leaves there is unknown.
        known.bounded = None;
        for ((file, bound), named) in bounds(cgroup).into_iter().zip(known.named) {
            let done = match bound {
                Some(bound) => put(folder, file, &bound),
                None if named => match put(folder, file, UNBOUNDED) {
                    // Without the controller nothing is bounded.
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

/// The bounds' files, and what is to stand there.
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

fn open_or_make(path: &Path) -> Result<(OwnedFd, Origin)> {
    match open_folder(path) {
        Err(Errno::NOENT) => {
            let origin = match mkdirat(CWD, path, Mode::from_raw_mode(0o755)) {
                Ok(()) => Origin::Made,
                Err(Errno::EXIST) => Origin::Found,
                Err(errno) => return Err(errno),
            };
            Ok((open_folder(path)?, origin))
        }
        opened => Ok((opened?, Origin::Found)),
    }
}

fn open_folder(path: &Path) -> Result<OwnedFd> {
    openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Writes a bound, unless it is there: who may not write it may still find it as it should be.
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
    // Of the processor's time, the period stands behind it.
    Ok(text == bound.as_bytes() || bound == UNBOUNDED && text.starts_with(UNBOUNDED.as_bytes()))
}
