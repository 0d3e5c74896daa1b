//! A name in a folder, found so that no other user decides where it leads.
//!
//! Owns the walk along a path and the question which folders are open to others (`../output.rs`).
//! Tested in `tests.rs`.

use super::{FileOwner, make_folder};
use rustix::{
    fs::{
        Access, AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, RenameFlags, Stat, accessat, fstat,
        fstatfs, mkdirat, openat, readlinkat, renameat, renameat_with, statat, unlinkat,
    },
    io::Errno,
    process::geteuid,
};
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

/// Symbolic links that a path may lead through, as in the kernel (`MAXSYMLINKS`).
const LINKS_MAX: usize = 40;

/// Why the superuser does not use a path. Comes as the inner error of an [`io::Error`] of kind
/// `PermissionDenied`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathRefusal {
    /// Another user could have made this link.
    #[error(
        "{} is a symbolic link that another user could have made, because {} is open to others; remove it, or name the file itself",
        link.display(), folder.display()
    )]
    SymbolicLink {
        /// The link.
        link: PathBuf,
        /// The folder that lets another user make it.
        folder: PathBuf,
    },
    /// Another user could move the folder, so the way up is that user's choice.
    #[error("{} goes up from a folder that another user may move; name the file without ..", .0.display())]
    WayUp(PathBuf),
    /// Another user could have given another file this name.
    #[error(
        "{} has several names (hard links), and its folder is open to others; remove the name, or move the file to a folder of the superuser",
        .0.display()
    )]
    HardLink(PathBuf),
    /// The file is another user's.
    #[error("{} belongs to user {uid}, and its folder is open to others; remove it", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// No file that a program writes to.
    #[error("{} is no regular file, FIFO or character device; name another file", .0.display())]
    Kind(PathBuf),
}

impl From<PathRefusal> for io::Error {
    fn from(refusal: PathRefusal) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, refusal)
    }
}

/// A name in a folder that is held open: later changes to the folder's own path do not matter.
#[derive(Debug)]
pub struct NameInFolder {
    pub(super) folder: OwnedFd,
    pub(super) name: OsString,
    /// For messages.
    pub(super) path: PathBuf,
    /// The folder above or at the name that is open to others.
    open: Option<PathBuf>,
    /// Whether the kernel follows the last link, because the folder is the kernel's own
    /// (`/proc/self/fd`).
    pub(super) is_of_kernel: bool,
}

impl NameInFolder {
    /// Finds the folder of `path`. The last component need not exist. For the superuser a last
    /// component that is a symbolic link of the superuser is followed; every other process keeps
    /// it.
    ///
    /// # Errors
    /// A folder on the way is missing, or [`PathRefusal`].
    pub fn find(path: &Path) -> io::Result<Self> {
        if geteuid().is_root() { PathWalk::new(path)?.place() } else { Self::plain(path) }
    }

    /// The name `name` in `folder`, which the caller has looked at.
    pub fn within(folder: OwnedFd, name: &OsStr, path: &Path) -> Self {
        let path = path.to_owned();
        Self { folder, name: name.to_owned(), path, open: None, is_of_kernel: false }
    }

    fn plain(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(Errno::ISDIR)?.to_owned();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = openat(CWD, parent.unwrap_or(Path::new(".")), FOLDER, Mode::empty())?;
        Ok(Self { folder, name, path: path.to_owned(), open: None, is_of_kernel: false })
    }

    /// The path that was asked for.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder, for system calls beneath it.
    pub fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// The last component.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// A path to this name for calls that know no folders, such as `bind(2)`. It is of use to this
    /// process alone.
    pub fn way(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.folder.as_raw_fd())).join(&self.name)
    }

    /// The entry with this name, without following a symbolic link.
    ///
    /// # Errors
    /// Nothing does, or the system refuses.
    pub fn stat(&self) -> io::Result<Stat> {
        Ok(statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Whether this thread may make, rename and remove names in the folder.
    ///
    /// # Errors
    /// The thread may not, or the file system is read-only.
    pub fn may_change(&self) -> io::Result<()> {
        Ok(accessat(&self.folder, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::empty())?)
    }

    /// Removes the name of a file, not through a symbolic link.
    ///
    /// # Errors
    /// The system's error.
    pub fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.folder, &self.name, AtFlags::empty())?)
    }

    /// Gives the file the name of `to`, in place of the file that has the name.
    ///
    /// # Errors
    /// The system's error.
    pub fn rename(&self, to: &Self) -> io::Result<()> {
        Ok(renameat(&self.folder, &self.name, &to.folder, &to.name)?)
    }

    /// Gives the file the name `to`, which no file may have.
    ///
    /// # Errors
    /// `EEXIST` if a file has the name; `EINVAL` or `ENOSYS` without `renameat2(2)`.
    pub fn rename_new(&self, to: &Self) -> io::Result<()> {
        Ok(renameat_with(&self.folder, &self.name, &to.folder, &to.name, RenameFlags::NOREPLACE)?)
    }

    /// Gives the file the name `other`, and the file with that name this name, in one step.
    ///
    /// # Errors
    /// `ENOENT` if a file is missing; `EINVAL` or `ENOSYS` without `renameat2(2)`.
    pub fn exchange(&self, other: &Self) -> io::Result<()> {
        Ok(renameat_with(&self.folder, &self.name, &other.folder, &other.name, RenameFlags::EXCHANGE)?)
    }

    /// Waits until the disk has the folder's entries.
    ///
    /// # Errors
    /// The system's error.
    pub fn sync_folder(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        File::from(openat(&self.folder, ".", flags, Mode::empty())?).sync_all()
    }

    /// Makes a folder here with this mode, whatever the mask of the process, and gives it to
    /// `owner`.
    ///
    /// # Errors
    /// The system's error.
    pub fn make_folder(&self, mode: u32, owner: Option<FileOwner>) -> io::Result<OwnedFd> {
        make_folder(self.folder.as_fd(), &self.name, mode, owner)
    }
}

impl NameInFolder {
    /// Whether an untrusted user could have put `entry` here.
    pub(super) fn could_be_planted(&self, entry: &Stat) -> io::Result<bool> {
        Ok(self.open.is_some() || is_open(&fstat(&self.folder)?, entry)?)
    }

    pub(super) fn link_refused(&self) -> io::Error {
        let folder = self.open.clone().or_else(|| self.path.parent().map(Path::to_owned));
        PathRefusal::SymbolicLink { link: self.path.clone(), folder: folder.unwrap_or_default() }.into()
    }
}

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Whether `uid` can change every file anyway: the superuser and, in a user namespace, the owner of
/// the root folder.
pub(super) fn is_trusted(uid: u32) -> io::Result<bool> {
    Ok(uid == 0 || uid == statat(CWD, "/", AtFlags::empty())?.st_uid)
}

/// Whether an untrusted user could have put `entry` into `folder`.
fn is_open(folder: &Stat, entry: &Stat) -> io::Result<bool> {
    let is_for_others = folder.st_mode & 0o022 != 0;
    let is_sticky = folder.st_mode & 0o1000 != 0;
    let is_folder = FileType::from_raw_mode(entry.st_mode) == FileType::Directory;
    Ok(if !is_trusted(folder.st_uid)? {
        true
    } else if is_for_others && is_sticky {
        !is_trusted(entry.st_uid)? || !(is_folder || entry.st_nlink == 1)
    } else {
        is_for_others
    })
}

/// The way along a path, for the superuser.
pub(super) struct PathWalk {
    at: OwnedFd,
    /// Where `at` is, for messages.
    trail: PathBuf,
    /// The remaining components, the next component last.
    rest: Vec<OsString>,
    /// The first folder on the way that is open to others.
    open: Option<PathBuf>,
    links: usize,
    pub(super) makes_folders: bool,
    path: PathBuf,
}

/// The kind of a component.
enum PathStep {
    Folder(OwnedFd, Stat),
    Link(OsString),
    /// No folder and no link.
    Other,
    Missing,
}

impl PathWalk {
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let (start, trail) = if path.is_absolute() { ("/", "/") } else { (".", "") };
        let at = openat(CWD, start, FOLDER, Mode::empty())?;
        let mut walk = Self {
            at,
            trail: trail.into(),
            rest: Vec::new(),
            open: None,
            links: 0,
            makes_folders: false,
            path: path.to_owned(),
        };
        walk.push(path);
        Ok(walk)
    }

    fn push(&mut self, path: &Path) {
        let components = path.components().rev().filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        });
        self.rest.extend(components);
    }

    /// Goes to the folder of the last component.
    pub(super) fn place(mut self) -> io::Result<NameInFolder> {
        while let Some(name) = self.rest.pop() {
            let is_last = self.rest.is_empty();
            if is_last && name == ".." {
                return Err(Errno::ISDIR.into());
            }
            if is_last && !self.is_link(&name)? {
                return Ok(self.arrive(name, false));
            }
            if is_last && self.is_in_proc()? {
                return Ok(self.arrive(name, true));
            }
            self.go(&name)?;
        }
        Err(Errno::ISDIR.into())
    }

    /// Goes to the last component, which is a folder.
    pub(super) fn into_end(mut self) -> io::Result<OwnedFd> {
        while let Some(name) = self.rest.pop() {
            self.go(&name)?;
        }
        Ok(self.at)
    }

    fn arrive(self, name: OsString, is_of_kernel: bool) -> NameInFolder {
        let Self { at, open, path, .. } = self;
        NameInFolder { folder: at, name, path, open, is_of_kernel }
    }

    fn is_link(&self, name: &OsStr) -> io::Result<bool> {
        match statat(&self.at, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(false),
            found => Ok(FileType::from_raw_mode(found?.st_mode) == FileType::Symlink),
        }
    }

    fn is_in_proc(&self) -> io::Result<bool> {
        Ok(fstatfs(&self.at)?.f_type == PROC_SUPER_MAGIC)
    }

    /// One component further.
    fn go(&mut self, name: &OsStr) -> io::Result<()> {
        if name == ".." {
            return self.go_up();
        }
        match self.look(name)? {
            PathStep::Folder(folder, stat) => self.enter(folder, name, &stat),
            PathStep::Link(text) => self.follow(name, &text),
            PathStep::Other => Err(Errno::NOTDIR.into()),
            PathStep::Missing if self.makes_folders => {
                let made = mkdirat(&self.at, name, Mode::from_raw_mode(0o755));
                if !matches!(made, Err(Errno::EXIST)) {
                    made?;
                }
                match self.look(name)? {
                    PathStep::Folder(folder, stat) => self.enter(folder, name, &stat),
                    _ => Err(Errno::NOTDIR.into()),
                }
            }
            PathStep::Missing => Err(Errno::NOENT.into()),
        }
    }

    fn look(&self, name: &OsStr) -> io::Result<PathStep> {
        match openat(&self.at, name, FOLDER | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(folder) => {
                let stat = fstat(&folder)?;
                Ok(PathStep::Folder(folder, stat))
            }
            Err(Errno::NOENT) => Ok(PathStep::Missing),
            Err(Errno::NOTDIR | Errno::LOOP) if self.is_link(name)? => {
                let text = readlinkat(&self.at, name, Vec::new())?;
                Ok(PathStep::Link(OsStr::from_bytes(text.to_bytes()).to_owned()))
            }
            Err(Errno::NOTDIR | Errno::LOOP) => Ok(PathStep::Other),
            Err(errno) => Err(errno.into()),
        }
    }

    fn enter(&mut self, folder: OwnedFd, name: &OsStr, entry: &Stat) -> io::Result<()> {
        if self.open.is_none() && is_open(&fstat(&self.at)?, entry)? {
            self.open = Some(self.trail.clone());
        }
        self.trail.push(name);
        self.at = folder;
        Ok(())
    }

    fn go_up(&mut self) -> io::Result<()> {
        let is_foreign = !is_trusted(fstat(&self.at)?.st_uid)?;
        if self.open.is_some() || is_foreign {
            return Err(PathRefusal::WayUp(self.path.clone()).into());
        }
        self.at = openat(&self.at, "..", FOLDER, Mode::empty())?;
        self.trail.push("..");
        Ok(())
    }

    fn follow(&mut self, name: &OsStr, text: &OsStr) -> io::Result<()> {
        let entry = statat(&self.at, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if self.open.is_some() || is_open(&fstat(&self.at)?, &entry)? {
            let folder = self.open.clone().unwrap_or_else(|| self.trail.clone());
            return Err(PathRefusal::SymbolicLink { link: self.trail.join(name), folder }.into());
        }
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        if self.is_in_proc()? && name != "self" && name != "thread-self" {
            // A link of the kernel's leads to an open file, not to a name.
            self.at = openat(&self.at, name, FOLDER, Mode::empty())?;
            self.trail.push(name);
            return Ok(());
        }
        let text = Path::new(text);
        if text.is_absolute() {
            self.at = openat(CWD, "/", FOLDER, Mode::empty())?;
            self.trail = "/".into();
        }
        self.push(text);
        Ok(())
    }
}
