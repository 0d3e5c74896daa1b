//! Opening below a folder, and reading without waiting for the disk.
//!
//! Thin, safe wrappers over `openat2(2)` and `preadv2(2)` with the policies a file server needs. Caching is left to
//! the callers. Tested here.

use std::io::{self, IoSliceMut};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// Which symbolic links are followed. Links of `/proc` that lead to open files never are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Those that stay beneath the folder.
    Beneath,
    /// None at all.
    None,
    /// All, wherever they lead.
    All,
}

/// What the descriptor is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenFor {
    /// Reading a file or listing a folder. Never waits for the other end of a pipe.
    Reading,
    /// Asking about it or opening things beneath it (`O_PATH`); needs no right to read.
    Locating,
}

/// Whether a lookup may wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheOnly {
    /// Answers `WouldBlock` unless every component is in the kernel's cache (`RESOLVE_CACHED`).
    Yes,
    /// Waits as long as it takes.
    No,
}

/// How often a lookup that raced with renaming is repeated. Guess: each needs another rename at the wrong moment.
const RACES_MAX: u32 = 16;

/// Opens `path`, relative and without `..`, beneath `folder`; an empty path is the folder itself.
///
/// # Errors
/// `InvalidInput` for an absolute path, `..` or a NUL byte; `CrossesDevices` or `FilesystemLoop` where a link leads out
/// of what `links` allows; `WouldBlock` as [`CacheOnly::Yes`] says; else what `openat2(2)` gives.
pub fn open_beneath(
    folder: BorrowedFd<'_>,
    path: &[u8],
    purpose: OpenFor,
    links: Links,
    cache: CacheOnly,
) -> io::Result<OwnedFd> {
    if path.first() == Some(&b'/') || path.split(|&byte| byte == b'/').any(|part| part == b"..") {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is absolute or has '..' in it"));
    }
    let path = if path.is_empty() { b"." } else { path };
    let flags = match purpose {
        OpenFor::Reading => OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
        OpenFor::Locating => OFlags::PATH,
    };
    let mut resolve = ResolveFlags::NO_MAGICLINKS;
    resolve |= match links {
        Links::Beneath => ResolveFlags::BENEATH,
        Links::None => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        Links::All => ResolveFlags::empty(),
    };
    if cache == CacheOnly::Yes {
        resolve |= ResolveFlags::CACHED;
    }
    let mut races = 0;
    loop {
        match openat2(folder, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::AGAIN) if cache == CacheOnly::No && races < RACES_MAX => races += 1,
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// Reads what is in memory of `file` at `offset`, without waiting for the disk. Fewer bytes than asked for may come.
///
/// # Errors
/// `WouldBlock` if nothing of it is in memory or the file system cannot tell; else what `preadv2(2)` gives.
pub fn read_nowait(file: BorrowedFd<'_>, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    loop {
        match preadv2(file, &mut [IoSliceMut::new(buf)], offset, ReadWriteFlags::NOWAIT) {
            Err(Errno::OPNOTSUPP) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    fn tree() -> (tempfile::TempDir, File) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("root/sub")).unwrap();
        fs::write(dir.path().join("root/sub/page"), "inside").unwrap();
        fs::write(dir.path().join("secret"), "outside").unwrap();
        symlink("sub/page", dir.path().join("root/near")).unwrap();
        symlink("../secret", dir.path().join("root/far")).unwrap();
        let root = File::open(dir.path().join("root")).unwrap();
        (dir, root)
    }

    fn opens(root: &File, path: &str, links: Links) -> bool {
        open_beneath(root.as_fd(), path.as_bytes(), OpenFor::Reading, links, CacheOnly::No).is_ok()
    }

    #[test]
    fn links_are_followed_as_far_as_the_policy_says() {
        let (_dir, root) = tree();
        for (path, allowed) in [
            ("sub/page", [true, true, true]),
            ("", [true, true, true]),
            ("near", [true, false, true]),
            ("far", [false, false, true]),
            ("missing", [false, false, false]),
            ("../secret", [false, false, false]),
            ("sub/../../secret", [false, false, false]),
            ("/etc/passwd", [false, false, false]),
            ("sub/pa\0ge", [false, false, false]),
        ] {
            let found = [Links::Beneath, Links::None, Links::All].map(|links| opens(&root, path, links));
            assert_eq!(found, allowed, "{path:?} with beneath, none, all");
        }
    }

    #[test]
    fn reading_from_memory_gives_the_bytes_or_would_block() {
        let (_dir, root) = tree();
        let file =
            open_beneath(root.as_fd(), b"sub/page", OpenFor::Reading, Links::None, CacheOnly::No).unwrap();
        let mut buf = [0; 16];
        match read_nowait(file.as_fd(), &mut buf, 2) {
            Ok(count) => assert_eq!(&buf[..count], b"side"),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
}
