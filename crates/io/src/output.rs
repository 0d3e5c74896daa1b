//! Files that a process writes for its operator: logs, recordings, results, sockets.
//!
//! The superuser writes such files in folders that other users may change. A user that plants a
//! symbolic or hard link there must not decide which file the superuser opens, makes, empties,
//! gives away or removes. So for the superuser [`NameInFolder::find`] walks the path folder by
//! folder and follows a symbolic link only where no other user could have made it. [`Output`] then
//! opens the file beneath the folder that was reached: a regular file with one link, a FIFO or a
//! device. The owner of a file that was there before never changes.
//!
//! A folder is *open to others* if its owner is another user, or if its mode lets a group or
//! all users write. In a folder with the sticky bit, an entry of the superuser counts as safe,
//! because other users cannot replace it. Behind an open folder every symbolic link and every `..`
//! is refused.
//!
//! The rights of every other process bind it already, so for such a process a path means the same
//! as to the kernel. Leaves out which file is written and when. Tested below; the paths of the
//! binary in `crates/e2e/tests/e2e/links.rs`.

mod place;
#[cfg(test)]
mod tests;

pub use place::{NameInFolder, PathRefusal};

use place::{PathWalk, is_trusted};
use rustix::{
    fs::{
        CWD, FileType, Gid, Mode, OFlags, Uid, fchmod, fchown, fcntl_getfl, fcntl_setfl, fstat, ftruncate,
        mkdirat, openat,
    },
    io::Errno,
    process::geteuid,
};
use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Write as _},
    os::fd::{BorrowedFd, OwnedFd},
    path::Path,
};

/// How often a file is looked for again that came or went between two system calls.
const TRIES_MAX: usize = 16;

/// The user and the group that a new file or folder belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileOwner {
    /// The user's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
}

/// Makes the folder `name` in `folder` with this mode, whatever the mask of the process, and gives
/// it to `owner`. The calls that follow the first use the open folder, so another entry of the same
/// name is never changed.
///
/// # Errors
/// The system's error.
pub fn make_folder(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    mode: u32,
    owner: Option<FileOwner>,
) -> io::Result<OwnedFd> {
    mkdirat(folder, name, Mode::RWXU)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = openat(folder, name, flags, Mode::empty())?;
    if geteuid().is_root() && fstat(&made)?.st_uid != 0 {
        // Between the two calls another user has put an own folder there.
        return Err(Errno::EXIST.into());
    }
    if let Some(owner) = owner {
        give(&made, owner)?;
    }
    fchmod(&made, Mode::from_raw_mode(mode))?;
    Ok(made)
}

/// Makes the folders of `path` that are missing, with mode 0755 less the mask of the process.
///
/// # Errors
/// As [`NameInFolder::find`].
pub fn make_folders(path: &Path) -> io::Result<()> {
    if !geteuid().is_root() {
        return std::fs::create_dir_all(path);
    }
    let mut walk = PathWalk::new(path)?;
    walk.makes_folders = true;
    walk.into_end().map(drop)
}

/// Writes `bytes` to the file at `path`, in place of its content. As `std::fs::write`, but with the
/// checks of this module.
///
/// # Errors
/// As [`Output::open`].
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    Output::replace().open(path)?.write_all(bytes.as_ref())
}

/// How a file for output is opened.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    mode: u32,
    owner: Option<FileOwner>,
    /// Else the content is replaced.
    appends: bool,
}

impl Output {
    /// For appending to the present content. The mode of a new file is 0640, less the mask of
    /// the process.
    pub fn append() -> Self {
        Self { mode: 0o640, owner: None, appends: true }
    }

    /// For replacing the present content. The mode of a new file is 0666, less the mask of the
    /// process.
    pub fn replace() -> Self {
        Self { mode: 0o666, owner: None, appends: false }
    }

    /// The mode of a new file, less the mask of the process.
    #[must_use]
    pub fn mode(self, mode: u32) -> Self {
        Self { mode, ..self }
    }

    /// A new file belongs to `owner`, and a file of this user is taken.
    #[must_use]
    pub fn owned_by(self, owner: Option<FileOwner>) -> Self {
        Self { owner, ..self }
    }

    /// Opens `path`, and makes the file if it is missing. For [`append`](Self::append) a FIFO
    /// without a reader is the error `ENXIO`, and the descriptor does not block. For
    /// [`replace`](Self::replace) a FIFO is waited for, unless another user could have planted it.
    ///
    /// # Errors
    /// The system's error, or [`PathRefusal`].
    pub fn open(&self, path: &Path) -> io::Result<File> {
        if !geteuid().is_root() {
            return Ok(self.open_plainly(path)?.into());
        }
        let walk = PathWalk::new(path)?;
        self.open_at(walk)
    }

    /// Opens the file at a name that was found before, with the checks of [`open`](Self::open).
    /// Never follows a link, and makes no file.
    ///
    /// # Errors
    /// The system's error, or [`PathRefusal`].
    pub fn open_found(&self, place: &NameInFolder) -> io::Result<File> {
        let flags = self.flags() | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        match openat(&place.folder, &place.name, flags, Mode::empty()) {
            Err(Errno::LOOP) => Err(place.link_refused()),
            opened if geteuid().is_root() => self.check(opened?, place),
            opened => Ok(opened?.into()),
        }
    }

    fn flags(&self) -> OFlags {
        let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
        if self.appends { flags | OFlags::APPEND | OFlags::NONBLOCK } else { flags }
    }

    fn open_plainly(&self, path: &Path) -> io::Result<OwnedFd> {
        let extra = if self.appends { OFlags::empty() } else { OFlags::TRUNC };
        let flags = self.flags() | OFlags::CREATE | extra;
        Ok(openat(CWD, path, flags, Mode::from_raw_mode(self.mode))?)
    }

    fn open_at(&self, walk: PathWalk) -> io::Result<File> {
        let place = walk.place()?;
        let NameInFolder { folder, name, .. } = &place;
        if place.is_of_kernel {
            // The process has this file already, and the link has no text that could be followed.
            return Ok(openat(folder, name, self.flags(), Mode::empty())?.into());
        }
        for _ in 0..TRIES_MAX {
            let flags = self.flags() | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            match openat(folder, name, flags, Mode::empty()) {
                Err(Errno::NOENT) => {}
                Err(Errno::NXIO) if !self.appends && !place.could_be_planted(&place.stat()?)? => {
                    return Ok(openat(folder, name, self.flags() | OFlags::NOFOLLOW, Mode::empty())?.into());
                }
                Err(Errno::LOOP) => return Err(place.link_refused()),
                opened => return self.check(opened?, &place),
            }
            let new = self.flags() | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            match openat(folder, name, new, Mode::from_raw_mode(self.mode)) {
                Err(Errno::EXIST) => {}
                made => {
                    let made = made?;
                    if let Some(owner) = self.owner {
                        give(&made, owner)?;
                    }
                    return Ok(made.into());
                }
            }
        }
        Err(Errno::AGAIN.into())
    }

    /// Looks at a file that was there.
    fn check(&self, file: OwnedFd, place: &NameInFolder) -> io::Result<File> {
        let found = fstat(&file)?;
        if !self.appends {
            fcntl_setfl(&file, fcntl_getfl(&file)? & !OFlags::NONBLOCK)?;
        }
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => {}
            FileType::Fifo | FileType::CharacterDevice => return Ok(file.into()),
            _ => return Err(PathRefusal::Kind(place.path.clone()).into()),
        }
        let folder = fstat(&place.folder)?;
        if place.could_be_planted(&found)? {
            if found.st_nlink != 1 {
                return Err(PathRefusal::HardLink(place.path.clone()).into());
            }
            let wanted = self.owner.map(|owner| owner.uid);
            if !is_trusted(found.st_uid)? && found.st_uid != folder.st_uid && Some(found.st_uid) != wanted {
                return Err(PathRefusal::Foreign { path: place.path.clone(), uid: found.st_uid }.into());
            }
        }
        if !self.appends {
            ftruncate(&file, 0)?;
        }
        Ok(file.into())
    }
}

fn give(file: &OwnedFd, owner: FileOwner) -> io::Result<()> {
    Ok(fchown(file, Some(Uid::from_raw(owner.uid)), Some(Gid::from_raw(owner.gid)))?)
}
