//! A root: the folder at which a site's paths start, and whether inotify reports all changes below
//! the root.
//!
//! Also the file systems on which inotify reports all changes. Tested in `tests/root.rs`.

use super::{
    open::{FileValidator, OpenPaths, OpenPurpose, open},
    options::FollowSymlinks,
};
use rustix::{
    fs::{CWD, OFlags, ResolveFlags, fstatfs},
    io::Errno,
};
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::OnceLock,
};
use vermeil_io::{CacheOnly, is_without_disk};

/// The folder at which paths start.
#[derive(Debug)]
pub(super) struct SiteRoot {
    folder: OwnedFd,
    pub(super) validator: FileValidator,
    watched: OnceLock<bool>,
}

/// File systems on which every change goes through this kernel, so that inotify reports every
/// change. The numbers are from `linux/magic.h`; ZFS and bcachefs have their own headers.
///
/// Writable: ext2 to ext4, XFS, Btrfs, tmpfs, ramfs, F2FS, ZFS, bcachefs, FAT, exFAT, JFS, NILFS.
/// Read-only: squashfs, EROFS, ISO 9660, cramfs. Also overlayfs, the root of most containers,
/// because its layers must not change beneath a mount (kernel documentation, overlayfs, "Changes to
/// underlying filesystems").
///
/// Each use of a path checks the entry again on all other file systems. Other machines or programs
/// write some of them (NFS, SMB, 9P, FUSE, Ceph, AFS, OCFS2, GFS2), and the rest are unknown.
const TOLD_FILE_SYSTEMS: [u32; 18] = [
    0x794C_7630,
    0xEF53,
    0x5846_5342,
    0x9123_683E,
    0x0102_1994,
    0x8584_58F6,
    0xF2F5_2010,
    0x2FC1_2FC1,
    0xCA45_1A4E,
    0x4D44,
    0x2011_BAB0,
    0x3153_464A,
    0x3434,
    0x7371_7368,
    0xE0F5_E1E2,
    0x9660,
    0x28CD_3D45,
    0x5265_4973,
];

/// Whether each change of `file` moves its time of change, once its pages are written back. On file
/// systems without a disk a store through a memory mapping never moves a file's times.
pub(super) fn moves_times(file: BorrowedFd<'_>) -> bool {
    is_told(file) && !is_without_disk(file)
}

/// Whether every change of the file system goes through this kernel.
pub(super) fn is_told(file: BorrowedFd<'_>) -> bool {
    // The field's width differs between architectures; the magic number has 32 bits.
    fstatfs(file).is_ok_and(|info| TOLD_FILE_SYSTEMS.contains(&(info.f_type as u32)))
}

impl SiteRoot {
    pub(super) fn new(folder: OwnedFd) -> Result<Self, Errno> {
        let validator = FileValidator::of(folder.as_fd())?;
        Ok(Self { folder, validator, watched: OnceLock::new() })
    }

    /// Opens the folder at `path` for serving.
    pub(super) fn open(path: &Path, cache: CacheOnly) -> Result<Self, Errno> {
        let folder = locate(path, cache)?;
        // Fails here if the files below could not be opened either, so the operator is told. On a
        // core, the first open for a folder mostly waits, and then a thread that may wait opens.
        let way = OpenPaths::Allowed(FollowSymlinks::Within);
        open(folder.as_fd(), b"", OpenPurpose::LocatingFolder, way, cache)?;
        Self::new(folder)
    }

    /// Whether inotify reports all changes below the folder, as far as its file system decides.
    pub(super) fn watched(&self) -> bool {
        *self.watched.get_or_init(|| is_told(self.folder.as_fd()))
    }

    /// The folder, if inotify reports all changes below the folder.
    pub(super) fn watchable(&self) -> Option<BorrowedFd<'_>> {
        self.watched().then(|| self.folder.as_fd())
    }
}

impl AsFd for SiteRoot {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

/// Opens the folder at `path`, wherever symbolic links lead, because the operator chose this path,
/// not a client.
pub(super) fn locate(path: &Path, cache: CacheOnly) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = match cache {
        CacheOnly::Yes => ResolveFlags::CACHED,
        CacheOnly::No => ResolveFlags::empty(),
    };
    vermeil_io::open(CWD, path, flags, resolve)
}
