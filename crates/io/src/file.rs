//! Reads without waiting for the disk.
//!
//! A thin, safe wrapper over `preadv2(2)`, and the type of the choice. Caching is left to the
//! callers. Not every file system can say whether a read would wait: tmpfs and overlayfs refuse
//! the flag. `untold_reads.rs` decides about those. Tested here.

#![allow(unsafe_code)]

use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2};

use crate::untold_reads::{self, WithoutNowait};

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
/// `WouldBlock` if nothing is in memory, or if the file system cannot tell and was slow lately;
/// else as `preadv2(2)`. The kernel then reads the part meanwhile.
pub fn read_nowait(file: BorrowedFd<'_>, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let bytes = buf.len();
    nowait(file, (offset, bytes), |flags| preadv2(file, &mut [IoSliceMut::new(buf)], offset, flags))
}

/// As [`read_nowait`], or as [`read_waiting`] where `cache` allows to wait. Asks neither the kernel
/// nor for the file's device if `without_nowait` is the file system of the file.
///
/// # Errors
/// As these functions.
pub fn read_from(
    file: BorrowedFd<'_>,
    buf: &mut [u8],
    offset: u64,
    (cache, without_nowait): (CacheOnly, Option<WithoutNowait>),
) -> io::Result<usize> {
    match (cache, without_nowait) {
        (CacheOnly::Yes, None) => read_nowait(file, buf, offset),
        (CacheOnly::No, None) => read_waiting(file, buf, offset),
        (CacheOnly::Yes, Some(known)) => {
            let read = known.read_on_core(|| uninterrupted(|| pread(file, &mut *buf, offset)));
            begun(read, file, (offset, buf.len()))
        }
        (CacheOnly::No, Some(known)) => {
            Ok(known.read_on_thread(|| uninterrupted(|| pread(file, &mut *buf, offset)))?)
        }
    }
}

/// Reads the part of `file` at `offset`, and waits for the disk. Fewer bytes than requested may
/// come.
///
/// # Errors
/// As `pread(2)`.
pub fn read_waiting(file: BorrowedFd<'_>, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut read = |flags| preadv2(file, &mut [IoSliceMut::new(&mut *buf)], offset, flags);
    // Asks first, because the duration of a read says something only where the kernel cannot tell.
    match uninterrupted(|| read(ReadWriteFlags::NOWAIT)) {
        Ok(count) => Ok(count),
        Err(Errno::OPNOTSUPP) => {
            Ok(untold_reads::read_on_thread(file, || uninterrupted(|| pread(file, &mut *buf, offset)))?)
        }
        Err(_) => Ok(uninterrupted(|| pread(file, &mut *buf, offset))?),
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
    let at = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    nowait(file, (offset, count), |flags| {
        let spare = &mut into.spare_capacity_mut()[..count];
        let room = libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: count };
        let flags = flags.bits().cast_signed();
        // SAFETY: `room` is the spare capacity of `into`, which stays where it is during the call;
        // the kernel writes at most `iov_len` bytes there.
        let read = unsafe { libc::preadv2(file.as_raw_fd(), &raw const room, 1, at, flags) };
        let Ok(read) = usize::try_from(read) else {
            return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO));
        };
        // SAFETY: the kernel has written `read` bytes behind the present length.
        unsafe { into.set_len(into.len() + read) };
        Ok(read)
    })
}

/// Performs `read`, of a `part` of `file`, with the flag that forbids waiting, or without where the
/// kernel refuses the flag and the read is expected to be quick.
fn nowait(
    file: BorrowedFd<'_>,
    part: (u64, usize),
    mut read: impl FnMut(ReadWriteFlags) -> Result<usize, Errno>,
) -> io::Result<usize> {
    match uninterrupted(|| read(ReadWriteFlags::NOWAIT)) {
        Err(Errno::OPNOTSUPP) => {
            let read = untold_reads::read_on_core(file, || uninterrupted(|| read(ReadWriteFlags::empty())));
            begun(read, file, part)
        }
        result => Ok(result?),
    }
}

/// The result of a `read` that was left to another thread if the read would block. Then the kernel
/// begins to read the part of `bytes` at `offset`. The kernel does so by itself for a refused read
/// with `RWF_NOWAIT`. Otherwise the number of threads would bound the reads that a disk works on:
/// eight threads read 770 files a second from a disk that answers in 10 ms.
fn begun(read: io::Result<usize>, file: BorrowedFd<'_>, (offset, bytes): (u64, usize)) -> io::Result<usize> {
    if read.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
        // Where the kernel cannot, the thread reads alone.
        let _ = fadvise(file, offset, NonZeroU64::new(bytes as u64), Advice::WillNeed);
    }
    read
}

fn uninterrupted(mut read: impl FnMut() -> Result<usize, Errno>) -> Result<usize, Errno> {
    loop {
        match read() {
            Err(Errno::INTR) => {}
            result => return result,
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
    use std::time::{Duration, Instant};

    /// `/dev/shm` is tmpfs on every usual system. tmpfs refuses `RWF_NOWAIT`.
    #[test]
    fn reading_from_tmpfs_never_would_block() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        fs::write(dir.path().join("page"), "inside").unwrap();
        let file = File::open(dir.path().join("page")).unwrap();
        assert!(untold_reads::is_without_disk(file.as_fd()));
        let mut buf = [0; 16];
        assert_eq!(read_nowait(file.as_fd(), &mut buf, 2).unwrap(), 4);
        assert_eq!(&buf[..4], b"side");
        let mut into = b"be".to_vec();
        assert_eq!(append_nowait(file.as_fd(), &mut into, 16, 2).unwrap(), 4);
        assert_eq!(into, b"beside");
    }

    #[test]
    fn file_system_that_refused_is_known_by_its_device() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        fs::write(dir.path().join("page"), "inside").unwrap();
        let file = File::open(dir.path().join("page")).unwrap();
        let mut buf = [0; 16];
        read_nowait(file.as_fd(), &mut buf, 0).unwrap();
        let known = WithoutNowait::of_device(rustix::fs::fstat(&file).unwrap().st_dev).unwrap();
        assert!(known.is_without_disk());
        assert_eq!(WithoutNowait::at(known.place()), Some(known));
        for cache in [CacheOnly::Yes, CacheOnly::No] {
            assert_eq!(read_from(file.as_fd(), &mut buf, 2, (cache, Some(known))).unwrap(), 4);
            assert_eq!(&buf[..4], b"side");
        }
        let elsewhere = File::open("/proc/self/status").unwrap();
        assert!(!known.is_of(rustix::fs::fstat(&elsewhere).unwrap().st_dev));
        for file in [&file, &elsewhere] {
            known.confirm(file.as_fd(), 1);
            assert!(known.is_without_disk(), "a file of another file system says nothing");
        }
        assert_eq!((WithoutNowait::of_device(0), WithoutNowait::at(WithoutNowait::PLACES)), (None, None));
    }

    #[test]
    fn refused_read_begins_in_the_kernel() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page");
        fs::write(&path, vec![b'x'; 4096]).unwrap();
        let file = File::open(&path).unwrap();
        rustix::fs::fsync(&file).unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        if is_in_memory(&file) {
            return eprintln!("skipped: the file system keeps the page in memory");
        }
        let refused = Err(io::ErrorKind::WouldBlock.into());
        assert!(begun(refused, file.as_fd(), (0, 4096)).is_err());
        let deadline = Instant::now() + Duration::from_secs(10);
        while !is_in_memory(&file) {
            assert!(Instant::now() < deadline, "the kernel reads nothing");
            std::thread::yield_now();
        }
    }

    /// Whether the first page of `file` is in memory. The question reads nothing.
    fn is_in_memory(file: &File) -> bool {
        let mut page = 0;
        // SAFETY: the kernel chooses a place for the new mapping, which nothing reads or writes.
        // `mincore` writes a byte for the only page, and then the mapping is removed.
        unsafe {
            let fd = file.as_raw_fd();
            let at = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, fd, 0);
            assert_ne!(at, libc::MAP_FAILED);
            assert_eq!(libc::mincore(at, 4096, &raw mut page), 0);
            assert_eq!(libc::munmap(at, 4096), 0);
        }
        page & 1 == 1
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
