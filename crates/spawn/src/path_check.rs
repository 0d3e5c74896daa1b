//! Finding a program below the root and judging every name on the way (`check.rs`), without
//! following links.
//!
//! The spawner holds the judged folder open, and the program starts in that folder. The spawner
//! executes the program by its path. Between the judgement and the exec, only users that are
//! allowed to change the program can change it.

use crate::{
    check::{self, FileKind, ProgramRefusal, StatResult},
    error::{StartFault, StartStep},
    reply::at,
};
use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat},
    io::{Errno, Result},
};
use std::{
    ffi::OsStr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

/// A program that may be started.
pub(crate) struct AllowedProgram {
    /// The program's folder.
    pub(crate) folder: OwnedFd,
    /// The path to execute.
    pub(crate) path: PathBuf,
}

/// A refused program: the path of the offending entry, or of the whole folder to run in, and the
/// fault.
pub(crate) type Refused = (PathBuf, StartFault);

const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a folder whose name is trusted.
pub(crate) fn open_folder(path: &Path) -> Result<OwnedFd> {
    openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Finds the program `name` below `root` for user `runs_as`.
pub(crate) fn program(
    root: &Path,
    name: &Path,
    runs_as: u32,
) -> std::result::Result<AllowedProgram, Refused> {
    let mut path = root.to_owned();
    let names = match check::names(name) {
        Ok(names) => names,
        Err(refusal) => return Err((name.to_owned(), refusal.into())),
    };
    let (last, folders) = names.split_last().expect("checked: at least one name");
    let mut folder = match open_folder(root) {
        Ok(folder) => folder,
        Err(errno) => return Err((path, at(StartStep::Root)(errno))),
    };
    if let Err(fault) = judge(folder.as_fd(), |found| check::folder(found, runs_as)) {
        return Err((path, fault));
    }
    for name in folders {
        path.push(name);
        let next = open(folder.as_fd(), name);
        match next.and_then(|next| {
            judge(next.as_fd(), |found| check::folder(found, runs_as))?;
            Ok(next)
        }) {
            Ok(next) => folder = next,
            Err(fault) => return Err((path, fault)),
        }
    }
    path.push(last);
    // The program is executed by its path, so no descriptor of the program is held open.
    let program = statat(&folder, *last, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(at(StartStep::Look))
        .and_then(|program| Ok(check::program(found(&program), runs_as)?));
    match program {
        Ok(()) => Ok(AllowedProgram { folder, path }),
        Err(fault) => Err((path, fault)),
    }
}

/// Finds a program whose name is trusted. Follows the links of the name, and judges the target. The
/// program is executed through the links.
pub(crate) fn listed(path: &Path, runs_as: u32) -> std::result::Result<AllowedProgram, Refused> {
    let real = path
        .canonicalize()
        .map_err(|source| (path.to_owned(), StartFault::Step { step: StartStep::Look, source }))?;
    let name = real.strip_prefix("/").expect("canonical paths are absolute");
    program(Path::new("/"), name, runs_as).map(|found| AllowedProgram { path: path.to_owned(), ..found })
}

/// Opens the folder `name` below `root` to run in, not following links.
pub(crate) fn folder(root: &Path, name: &Path) -> std::result::Result<OwnedFd, Refused> {
    let names = check::names(name).map_err(|refusal| (name.to_owned(), refusal.into()))?;
    let failed = |errno| (root.join(name), at(StartStep::Folder)(errno));
    let mut folder = open_folder(root).map_err(failed)?;
    for name in names {
        folder = openat(&folder, name, LOOK | OFlags::DIRECTORY, Mode::empty()).map_err(failed)?;
    }
    Ok(folder)
}

fn open(folder: BorrowedFd<'_>, name: &OsStr) -> std::result::Result<OwnedFd, StartFault> {
    openat(folder, name, LOOK, Mode::empty()).map_err(at(StartStep::Look))
}

fn judge(
    folder: BorrowedFd<'_>,
    rule: impl FnOnce(StatResult) -> std::result::Result<(), ProgramRefusal>,
) -> std::result::Result<(), StartFault> {
    let stat = fstat(folder).map_err(|errno: Errno| at(StartStep::Look)(errno))?;
    Ok(rule(found(&stat))?)
}

fn found(stat: &Stat) -> StatResult {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => FileKind::Folder,
        FileType::RegularFile => FileKind::File,
        FileType::Symlink => FileKind::Link,
        _ => FileKind::Other,
    };
    StatResult { kind, mode: stat.st_mode & 0o7777, uid: stat.st_uid }
}
