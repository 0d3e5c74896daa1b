//! Reads without waiting for the disk.
//!
//! A thin, safe wrapper over `preadv2(2)`, and the type of the choice. Caching is left to the
//! callers. Not every file system can say whether a read would wait: tmpfs and overlayfs refuse
//! the flag. A file on tmpfs is read anyway, because it has no disk. Tested here.

#![allow(unsafe_code)]

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::fstatfs;
use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// tmpfs and ramfs, by the numbers in `linux/magic.h`. Their files have no disk, so a read does not
/// wait, except for pages in the swap space, like any access to memory.
const WITHOUT_DISK: [u32; 2] = [0x0102_1994, 0x8584_58F6];

/// Whether the file is on a file system without a disk: tmpfs or ramfs.
pub fn is_without_disk(file: BorrowedFd<'_>) -> bool {
    // The field's width differs between architectures; the magic number has 32 bits.
    fstatfs(file).is_ok_and(|info| WITHOUT_DISK.contains(&(info.f_type as u32)))
}

/// Whether a lookup may wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheOnly {
    /// Answers `WouldBlock` unless every component is in the kernel's cache (`RESOLVE_CACHED`).
    Yes,
    /// Waits for the disk.
    No,
}

/// Reads the part of `file` at `offset` that is in memory, without waiting for the disk. Fewer
/// bytes than requested may come.
///
/// # Errors
/// `WouldBlock` if nothing is in memory or the file system cannot tell; else as `preadv2(2)`.
pub fn read_nowait(file: BorrowedFd<'_>, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut flags = ReadWriteFlags::NOWAIT;
    loop {
        match preadv2(file, &mut [IoSliceMut::new(buf)], offset, flags) {
            Err(Errno::OPNOTSUPP) if !flags.is_empty() && is_without_disk(file) => {
                flags = ReadWriteFlags::empty();
            }
            Err(Errno::OPNOTSUPP) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// Appends to `into` at most `count` bytes of `file` at `offset` that are in memory, without
/// waiting for the disk. May append fewer bytes.
///
/// # Errors
/// As [`read_nowait`].
pub fn append_nowait(
    file: BorrowedFd<'_>,
    into: &mut Vec<u8>,
    count: usize,
    offset: u64,
) -> io::Result<usize> {
    into.reserve_exact(count);
    let spare = &mut into.spare_capacity_mut()[..count];
    let room = libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: count };
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut flags = libc::RWF_NOWAIT;
    loop {
        // SAFETY: `room` is the spare capacity of `into`, which stays where it is during the call;
        // the kernel writes at most `iov_len` bytes there.
        let read = unsafe { libc::preadv2(file.as_raw_fd(), &raw const room, 1, offset, flags) };
        if let Ok(read) = usize::try_from(read) {
            // SAFETY: the kernel has written `read` bytes behind the present length.
            unsafe { into.set_len(into.len() + read) };
            return Ok(read);
        }
        match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                if flags != 0 && is_without_disk(file) {
                    flags = 0;
                    continue;
                }
                return Err(io::ErrorKind::WouldBlock.into());
            }
            error if error.kind() == io::ErrorKind::Interrupted => {}
            error => return Err(error),
        }
    }
}

/// Has the kernel begin to write back all pages of `file` that are changed in memory. From then on
/// the next store through a memory mapping takes a page fault, which moves the file's time of
/// change. Waits for pages that are being written.
///
/// # Errors
/// What `sync_file_range(2)` gives.
pub fn start_writeback(file: BorrowedFd<'_>) -> io::Result<()> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE;
    // SAFETY: the call takes numbers only.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::fd::AsFd;

    /// `/dev/shm` is tmpfs on every usual system. tmpfs refuses `RWF_NOWAIT`.
    #[test]
    fn reading_from_tmpfs_never_would_block() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        fs::write(dir.path().join("page"), "inside").unwrap();
        let file = File::open(dir.path().join("page")).unwrap();
        assert!(is_without_disk(file.as_fd()));
        let mut buf = [0; 16];
        assert_eq!(read_nowait(file.as_fd(), &mut buf, 2).unwrap(), 4);
        assert_eq!(&buf[..4], b"side");
        let mut into = b"be".to_vec();
        assert_eq!(append_nowait(file.as_fd(), &mut into, 16, 2).unwrap(), 4);
        assert_eq!(into, b"beside");
    }

    #[test]
    fn reading_from_memory_gives_the_bytes_or_would_block() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("page"), "inside").unwrap();
        let file = File::open(dir.path().join("page")).unwrap();
        let mut buf = [0; 16];
        match read_nowait(file.as_fd(), &mut buf, 2) {
            Ok(count) => assert_eq!(&buf[..count], b"side"),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
}
