//! Opening files beneath the root, and their identity.
//!
//! This file owns the flags of `openat2(2)` and the identity that reveals a change. The kernel
//! itself keeps every open beneath the root, so this code checks no path. Tested in
//! `tests/policy.rs`.

use super::options::FollowSymlinks;
use rustix::{
    fs::{AtFlags, CWD, FileType, OFlags, ResolveFlags, Stat, fstat, readlinkat, statat},
    io::Errno,
};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use vermeil_io::CacheOnly;

/// Number of times that an open is repeated after a race with a rename. Each repetition needs
/// another rename within the same microseconds, so the limit only ends a loop against a malicious
/// writer.
const RACES_MAX: u32 = 16;

/// The job would wait for a disk: run the job on a thread that may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resolving a path would wait for the disk; run the job where waiting is allowed")]
pub struct WouldBlock;

/// The paths that an open may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenPaths {
    /// Only through folders of the root's own mount: no symbolic link, no mount point. Inotify
    /// reports all changes on such a path.
    Plain,
    /// All paths that the site allows.
    Allowed(FollowSymlinks),
    /// From the root of the file system, through no symbolic link. Without links, a path without
    /// dot segments stays beneath the folder that it begins with.
    WithoutLinks,
}

/// The purpose of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenPurpose {
    /// Reading the metadata. The open does not activate a device or a pipe.
    Locating,
    /// Reading the metadata of a folder.
    LocatingFolder,
    /// Reading the content. The open never waits for the other end of a pipe. The regular look-up
    /// has seen a regular file of that name before. The cold look-up has not, so its open may reach
    /// a pipe or a device (`load/cold.rs`).
    Reading,
    /// Reading the names in a folder.
    ReadingFolder,
}

impl OpenPurpose {
    fn flags(self) -> OFlags {
        OFlags::CLOEXEC
            | match self {
                Self::Locating => OFlags::PATH,
                Self::LocatingFolder => OFlags::PATH | OFlags::DIRECTORY,
                Self::Reading => OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
                Self::ReadingFolder => OFlags::RDONLY | OFlags::DIRECTORY,
            }
    }
}

/// Opens `path`, relative, without dot segments, below `root`. An empty path is the root itself.
/// `EAGAIN` means that the open would wait and `cache` forbids waiting.
pub(super) fn open(
    root: BorrowedFd<'_>,
    path: &[u8],
    purpose: OpenPurpose,
    way: OpenPaths,
    cache: CacheOnly,
) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { b"." } else { path };
    let mut resolve = ResolveFlags::NO_MAGICLINKS;
    resolve |= match way {
        OpenPaths::Plain => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV,
        OpenPaths::Allowed(FollowSymlinks::Within) => ResolveFlags::BENEATH,
        OpenPaths::Allowed(FollowSymlinks::None) => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        OpenPaths::Allowed(FollowSymlinks::All) => ResolveFlags::empty(),
        OpenPaths::WithoutLinks => ResolveFlags::NO_SYMLINKS,
    };
    if cache == CacheOnly::Yes {
        resolve |= ResolveFlags::CACHED;
    }
    let mut races = 0;
    loop {
        match vermeil_io::open(root, path, purpose.flags(), resolve) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if cache == CacheOnly::No && races < RACES_MAX => races += 1,
            // Not "would block", because a repetition on another thread would not help.
            Err(Errno::AGAIN) if cache == CacheOnly::No => return Err(Errno::STALE),
            result => return result,
        }
    }
}

/// The state of the file at `path`, below the folder `base`. An empty path is `base` itself. A link
/// at the end is not followed.
pub(super) fn state_of(base: BorrowedFd<'_>, path: &[u8]) -> Result<FileValidator, Errno> {
    match path {
        b"" => FileValidator::of(base),
        path => statat(base, path, AtFlags::SYMLINK_NOFOLLOW).map(|stat| FileValidator::from(&stat)),
    }
}

/// The path of an open file after links, below the root and with a slash at its start. For a file
/// outside the root, the path in the file system. Waits for no disk.
///
/// # Errors
/// `ENOENT` if a link leads to a name that is not served, because a dotfile is hidden whatever path
/// leads to it. Any other error means that `/proc` does not have the path.
pub(super) fn reached(root: BorrowedFd<'_>, file: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let (root, path) = (path_of(root)?, path_of(file)?);
    let below = match &root[..] {
        b"/" => Some(&path[..]),
        root => path.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with(b"/")),
    };
    // The operator may choose a root below a dotfile. Then the folders beside that root are allowed
    // too.
    let shared = root.iter().zip(&path).take_while(|(a, b)| a == b).count();
    let shared = path[..shared].iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    if has_hidden(below.unwrap_or(&path[shared..])) {
        return Err(Errno::NOENT);
    }
    Ok(below.unwrap_or(&path).to_vec())
}

fn path_of(file: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mut path = readlinkat(CWD, link, Vec::new())?.into_bytes();
    if path.ends_with(DELETED) {
        path.truncate(path.len() - DELETED.len());
    }
    Ok(path)
}

/// The suffix that the kernel appends to the path of an unlinked file.
const DELETED: &[u8] = b" (deleted)";

/// Whether a segment of `path` is a dotfile's name. `.well-known` at the top is not hidden, as in
/// requests. A name with two dots is not hidden either, because Kubernetes mounts its volumes with
/// links to such folders.
fn has_hidden(path: &[u8]) -> bool {
    let mut segments = path.split(|&byte| byte == b'/').filter(|segment| !segment.is_empty()).enumerate();
    segments.any(|(i, segment)| {
        segment.starts_with(b".") && !segment.starts_with(b"..") && !(i == 0 && segment == b".well-known")
    })
}

/// The state of a file, to tell a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileValidator {
    pub(super) device: u64,
    pub(super) inode: u64,
    mode: u32,
    owner: (u32, u32),
    pub(super) links: u64,
    pub(super) bytes: u64,
    pub(super) modified: FileTime,
    pub(super) changed: FileTime,
}

/// Seconds since 1970, and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileTime {
    pub(super) seconds: i64,
    pub(super) nanoseconds: u32,
}

impl FileTime {
    /// Milliseconds since 1970.
    pub(super) fn ms(self) -> i64 {
        self.seconds.saturating_mul(1000).saturating_add(i64::from(self.nanoseconds / 1_000_000))
    }

    /// Milliseconds from this moment to `now_ms`, since 1970; negative for a moment in the future.
    pub(super) fn ms_ago(self, now_ms: i64) -> i64 {
        now_ms.saturating_sub(self.ms())
    }
}

impl FileValidator {
    /// The identity of an open file, from the kernel.
    pub(super) fn of(file: BorrowedFd<'_>) -> Result<Self, Errno> {
        fstat(file).map(|stat| Self::from(&stat))
    }

    /// The device and the inode.
    pub(super) fn file_id(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        self.file_id() == other.file_id()
    }

    pub(super) fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    /// Whether `later`, of the same open file, has the same content. Only the time of change
    /// reveals an edit that restored the time of modification. The time of change also moves when
    /// the file is linked, unlinked or replaced under its name, or when its mode or owner changes.
    /// None of these touches the content.
    pub(super) fn has_content_of(&self, later: &Self) -> bool {
        let renamed_or_chmoded =
            (self.links, self.mode, self.owner) != (later.links, later.mode, later.owner);
        self.bytes == later.bytes
            && self.modified == later.modified
            && (self.changed == later.changed || renamed_or_chmoded)
    }
}

impl From<&Stat> for FileValidator {
    // The widths of the fields differ between architectures.
    #[allow(clippy::unnecessary_cast)]
    fn from(stat: &Stat) -> Self {
        let moment = |seconds: i64, nanoseconds| FileTime { seconds, nanoseconds };
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            mode: stat.st_mode,
            owner: (stat.st_uid, stat.st_gid),
            links: stat.st_nlink as u64,
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
            modified: moment(stat.st_mtime as i64, stat.st_mtime_nsec as u32),
            changed: moment(stat.st_ctime as i64, stat.st_ctime_nsec as u32),
        }
    }
}
