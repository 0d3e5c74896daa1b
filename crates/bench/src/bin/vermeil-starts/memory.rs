//! Memory on a chosen kind of pages.

#![allow(unsafe_code)]

use std::{io, ptr::NonNull};

use clap::ValueEnum;

/// Bytes of a huge page on today's machines.
const HUGE: usize = 2 << 20;
/// Bytes of an ordinary page; where pages are larger, each page is written more than once.
const SMALL: usize = 4 << 10;

/// A kind of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PageKind {
    /// Of 4 KB.
    Small,
    /// Of 2 MB, merged by the kernel where possible.
    Transparent,
    /// Of 2 MB, set apart beforehand.
    Reserved,
}

/// A private mapping with every page in use.
pub(crate) struct MappedMemory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping has no other owner, and `Writer` writes single bytes that no thread reads.
unsafe impl Send for MappedMemory {}

impl MappedMemory {
    pub(crate) fn hold(bytes: usize, pages: PageKind) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(HUGE);
        let huge = if pages == PageKind::Reserved { libc::MAP_HUGETLB } else { 0 };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | huge;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: asks for new memory, wherever there is room.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let advice = match pages {
            PageKind::Small => Some(libc::MADV_NOHUGEPAGE),
            PageKind::Transparent => Some(libc::MADV_HUGEPAGE),
            PageKind::Reserved => None,
        };
        if let Some(advice) = advice {
            // SAFETY: the range is the mapping just made. A kernel without huge pages refuses the
            // advice, which is harmless.
            unsafe { libc::madvise(start, bytes, advice) };
        }
        let memory = Self { start: NonNull::new(start.cast()).expect("a mapping is not at zero"), bytes };
        (0..bytes).step_by(SMALL).for_each(|offset| memory.write(offset));
        Ok(memory)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes to the page at `offset`.
    pub(crate) fn write(&self, offset: usize) {
        assert!(offset < self.bytes);
        // SAFETY: within the mapping, and no thread reads the byte.
        unsafe { self.start.as_ptr().add(offset).write_volatile(1) };
    }

    /// The same memory for another thread, which must stop using the memory before the mapping is
    /// dropped.
    pub(crate) fn share(&self) -> std::mem::ManuallyDrop<Self> {
        std::mem::ManuallyDrop::new(Self { start: self.start, bytes: self.bytes })
    }
}

impl Drop for MappedMemory {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, which has no users any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
