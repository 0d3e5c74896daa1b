//! A copy of a file in memory that nothing can change any more: a sealed memory file.
//!
//! The kernel sends such a copy by `sendfile(2)` without copying the bytes again, and the process
//! reads the same pages through a mapping. A file of the file system gives either the speed of
//! `sendfile(2)` or the certainty that no writer changes the bytes while they leave; a sealed copy
//! gives both. Processes also pass each other long messages in sealed memory files, because the
//! receiver may be the supervisor of an attacked process. Leaves out the decision which files are
//! worth a copy. Tested below.

#![allow(unsafe_code)]

use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create, sendfile},
    io::Errno,
    mm::{MapFlags, ProtFlags, mmap, munmap},
};
use std::{
    ffi::CStr,
    fs::File,
    io::{self, ErrorKind, Write as _},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::FileExt as _,
    },
    ptr::NonNull,
    slice,
};

/// The seals against every change. The last keeps other processes from adding seals.
const SEALS: SealFlags =
    SealFlags::SEAL.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::WRITE);

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
        let memory = new_memory(c"file content")?;
        let mut at = 0;
        while at < bytes as u64 {
            let left = bytes - at as usize;
            match sendfile(&memory, source, Some(&mut at), left) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        fcntl_add_seals(&memory, SEALS)?;
        // A private mapping, because before Linux 6.7 a file that is sealed against writing has no
        // shared mapping. The process never writes to this mapping, so the pages stay the file's.
        let (protection, flags) = (ProtFlags::READ, MapFlags::PRIVATE);
        // SAFETY: the kernel chooses the address, so the mapping replaces no other memory.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, protection, flags, &memory, 0)? };
        let start = NonNull::new(start.cast()).ok_or(ErrorKind::OutOfMemory)?;
        Ok(Self { memory, start, bytes })
    }
}

/// A sealed memory file with this content, for another process. `name` is for `/proc` alone.
///
/// # Errors
/// The kernel has no memory files, no memory or no descriptor left.
pub fn sealed_memory(name: &CStr, content: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(new_memory(name)?);
    file.write_all(content)?;
    fcntl_add_seals(&file, SEALS)?;
    Ok(file.into())
}

/// Reads the content of a sealed memory file. Other processes may read the same file, so the offset
/// stays unused.
///
/// # Errors
/// The file is no memory file, is not sealed, or has more than `bytes_max` bytes.
pub fn read_sealed(memory: OwnedFd, bytes_max: u64) -> io::Result<Vec<u8>> {
    // Without the seals another process could cut the file between the next two calls. Files on
    // disks and pipes, from which a read may block, have no seals.
    if !fcntl_get_seals(&memory)?.contains(SealFlags::SHRINK | SealFlags::WRITE) {
        return Err(ErrorKind::InvalidData.into());
    }
    let file = File::from(memory);
    let bytes = file.metadata()?.len();
    if bytes > bytes_max {
        return Err(ErrorKind::FileTooLarge.into());
    }
    let mut content = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
    file.read_exact_at(&mut content, 0)?;
    Ok(content)
}

/// An empty memory file that can be sealed.
fn new_memory(name: &CStr) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
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
    use std::fs;

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
    fn sealed_memory_is_read_whole_and_never_changes() {
        let content = vec![7; 300_000];
        let memory = sealed_memory(c"test", &content).unwrap();
        let mut writer = File::from(memory.try_clone().unwrap());
        assert_eq!(writer.write(b"other").unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert_eq!(writer.set_len(0).unwrap_err().kind(), ErrorKind::PermissionDenied);
        let error = read_sealed(memory.try_clone().unwrap(), 299_999).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert!(read_sealed(memory, 300_000).unwrap() == content);
    }

    #[test]
    fn unsealed_file_is_not_read() {
        let (_dir, file) = source(b"inside");
        assert!(read_sealed(file.into(), 6).is_err());
        let memory = new_memory(c"test").unwrap();
        assert_eq!(read_sealed(memory, 6).unwrap_err().kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn shorter_file_is_an_error() {
        let (_dir, file) = source(b"inside");
        let error = SealedFile::copy_of(file.as_fd(), 7).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        assert!(SealedFile::copy_of(file.as_fd(), 0).is_err());
    }
}
