//! Reads without waiting for the disk.
//!
//! A thin, safe wrapper over `preadv2(2)`, and the type of the choice. Caching is left to the
//! callers. Tested here.

use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;

use rustix::io::{Errno, ReadWriteFlags, preadv2};

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
