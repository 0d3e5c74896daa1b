//! Arrays of atomic words, in memory of this process alone or in memory that other processes or the
//! kernel map too. Leaves out the meaning of the words (`load_page`, `work_page`). Tested there.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A block of words that other processes may write at any time.
///
/// # Safety
/// The type consists of atomic integers alone, so all bytes are valid, and zeros are a fresh block.
/// The alignment divides a page of memory.
pub(crate) unsafe trait WordBlock: Default + Send + Sync {}

/// An array of blocks.
#[derive(Debug)]
pub(crate) enum SharedWords<T: WordBlock> {
    Private(Box<[T]>),
    Mapped(MappedWords<T>),
}

/// A mapping of an array of blocks.
#[derive(Debug)]
pub(crate) struct MappedWords<T: WordBlock> {
    first: NonNull<T>,
    blocks: usize,
}

// SAFETY: the words are atomic, and the mapping belongs to this value until the value is dropped.
unsafe impl<T: WordBlock> Send for MappedWords<T> {}
// SAFETY: as above.
unsafe impl<T: WordBlock> Sync for MappedWords<T> {}

impl<T: WordBlock> SharedWords<T> {
    /// Blocks in memory of this process.
    pub(crate) fn private(blocks: usize) -> Self {
        Self::Private((0..blocks).map(|_| T::default()).collect())
    }

    /// Blocks in a file or a kernel map. The memory must hold `blocks` blocks and may not shrink.
    ///
    /// # Errors
    /// The memory cannot be mapped.
    pub(crate) fn mapped(memory: impl AsFd, blocks: usize, rights: ProtFlags) -> io::Result<Self> {
        let bytes = blocks * size_of::<T>();
        // SAFETY: the kernel chooses the address, so the mapping replaces no other memory.
        let first = unsafe { mmap(std::ptr::null_mut(), bytes, rights, MapFlags::SHARED, memory, 0)? };
        let first = NonNull::new(first.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self::Mapped(MappedWords { first, blocks }))
    }

    /// All blocks. A block of a mapping without the right to write must not be written.
    pub(crate) fn all(&self) -> &[T] {
        match self {
            Self::Private(blocks) => blocks,
            // SAFETY: `blocks` blocks were mapped, at the start of a memory page, which their
            // alignment divides. They are unmapped only when `self` is dropped. Other processes may
            // write the atomic words meanwhile.
            Self::Mapped(MappedWords { first, blocks }) => unsafe {
                std::slice::from_raw_parts(first.as_ptr(), *blocks)
            },
        }
    }
}

impl<T: WordBlock> Drop for MappedWords<T> {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `mapped` made, and no reference to it exists any more.
        // On failure, memory leaks, no more.
        let _ = unsafe { munmap(self.first.as_ptr().cast(), self.blocks * size_of::<T>()) };
    }
}
