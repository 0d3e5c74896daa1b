//! A copy of a file in memory that nothing can change any more: a sealed memory file.
//!
//! The kernel sends such a copy by `sendfile(2)` without copying the bytes again, and the process
//! reads the same pages through a mapping. A file of the file system gives either the speed of
//! `sendfile(2)` or the certainty that no writer changes the bytes while they leave; a sealed copy
//! gives both. Leaves out the decision which files are worth a copy. Tested below.

#![allow(unsafe_code)]

use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create, sendfile},
    io::Errno,
    mm::{MapFlags, ProtFlags, mmap, munmap},
};
use std::{
    io::{self, ErrorKind},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    ptr::NonNull,
    slice,
};

/// A copy of a file, sealed against every change.
#[derive(Debug)]
pub struct SealedFile {
    memory: OwnedFd,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: no thread can change the memory, and the mapping lives until the copy is dropped.
unsafe impl Send for SealedFile {}
// SAFETY: as above.
unsafe impl Sync for SealedFile {}

impl SealedFile {
    /// Copies the first `bytes` of `source`, and waits for the disk as long as needed. The caller
    /// checks that `source` did not change meanwhile.
    ///
    /// # Errors
    /// `UnexpectedEof` if `source` is shorter; `InvalidInput` for no bytes. Otherwise the kernel
    /// has no memory files, no memory or no descriptor left, or reading `source` failed.
    pub fn copy_of(source: BorrowedFd<'_>, bytes: usize) -> io::Result<Self> {
        let memory = new_memory()?;
        let mut at = 0;
        while at < bytes as u64 {
            let left = bytes - at as usize;
            match sendfile(&memory, source, Some(&mut at), left) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let all = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
        fcntl_add_seals(&memory, all)?;
        // A private mapping, because before Linux 6.7 a file that is sealed against writing has no
        // shared mapping. Nobody writes, so the pages stay the file's.
        let (protection, flags) = (ProtFlags::READ, MapFlags::PRIVATE);
        // SAFETY: the kernel chooses the address, so the mapping replaces no other memory.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, protection, flags, &memory, 0)? };
        let start = NonNull::new(start.cast()).ok_or(ErrorKind::OutOfMemory)?;
        Ok(Self { memory, start, bytes })
    }
}

/// An empty memory file that can be sealed.
fn new_memory() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let name = c"file content";
    // An administrator may require the flag (`vm.memfd_noexec`); Linux before 6.3 lacks it.
    match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => Ok(memfd_create(name, flags)?),
        result => Ok(result?),
    }
}

impl AsRef<[u8]> for SealedFile {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `bytes` bytes are mapped at `start` until `self` is dropped. The seals keep the
        // file from shrinking and from changing.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl AsFd for SealedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}

impl Drop for SealedFile {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `copy_of` made, and no reference to it exists any more.
        // On failure, memory leaks, no more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::{self, File},
        io::Write,
    };

    fn source(content: &[u8]) -> (tempfile::TempDir, File) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page");
        fs::write(&path, content).unwrap();
        (dir, File::open(path).unwrap())
    }

    #[test]
    fn copy_keeps_the_content_whatever_happens_to_the_file() {
        let content: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
        let (dir, file) = source(&content);
        let copy = SealedFile::copy_of(file.as_fd(), content.len()).unwrap();
        fs::write(dir.path().join("page"), "short").unwrap();
        assert!(copy.as_ref() == content);
    }

    #[test]
    fn nothing_changes_a_copy() {
        let (_dir, file) = source(b"inside");
        let copy = SealedFile::copy_of(file.as_fd(), 6).unwrap();
        let mut writer = File::from(copy.as_fd().try_clone_to_owned().unwrap());
        assert_eq!(writer.write(b"other").unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert_eq!(writer.set_len(0).unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert_eq!(copy.as_ref(), b"inside");
    }

    #[test]
    fn shorter_file_is_an_error() {
        let (_dir, file) = source(b"inside");
        let error = SealedFile::copy_of(file.as_fd(), 7).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        assert!(SealedFile::copy_of(file.as_fd(), 0).is_err());
    }
}
