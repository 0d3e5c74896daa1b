//! Work pages: the finished work of each core, for a profiler in another process.
//!
//! A page is a memory file. Each core has a block of words on cache lines of its own, and only the
//! core writes them, by plain stores. A profiler with the right to observe the process finds the
//! file among the descriptors of the process and maps the file, so reading costs the process
//! nothing. Leaves out the use of the counts. Tested below, and with a server in the end-to-end
//! test `profile`.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create};
use rustix::mm::ProtFlags;

use crate::shared_words::{SharedWords, WordBlock};

/// The name of the memory file. The number is the version of the layout.
const NAME: &str = "vermeil-work-1";

/// The counts of a core, in the order of [`CoreWork::counts`]. The first is the unit of work.
pub const WORK_COUNTS: [&str; 5] = ["requests", "bytes of bodies", "events", "runs of colors", "steals"];

/// The block of a core: two cache lines, which x86 fetches together.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct CoreWork {
    requests: AtomicU64,
    body_bytes: AtomicU64,
    events: AtomicU64,
    activations: AtomicU64,
    steals: AtomicU64,
    /// Written once, at the start.
    cpu: AtomicU64,
    unused: [AtomicU64; 10],
}

// SAFETY: the struct consists of atomic integers, and 128 divides the size of a page.
unsafe impl WordBlock for CoreWork {}

/// The blocks of all cores of a process.
#[derive(Debug)]
pub struct WorkPage {
    words: SharedWords<CoreWork>,
    /// Kept open, because profilers find the page among the open descriptors.
    _file: Option<OwnedFd>,
}

impl WorkPage {
    /// A page for cores on these cpus. If the system refuses a memory file, the page is in memory
    /// of this process, and no profiler finds the page.
    pub fn create(cpus: &[usize]) -> WorkPage {
        let shared = memory_file(cpus.len() * size_of::<CoreWork>()).and_then(|file| {
            Ok((SharedWords::mapped(&file, cpus.len(), ProtFlags::READ | ProtFlags::WRITE)?, file))
        });
        let page = match shared {
            Ok((words, file)) => WorkPage { words, _file: Some(file) },
            Err(_) => WorkPage { words: SharedWords::private(cpus.len()), _file: None },
        };
        for (core, &cpu) in page.cores().iter().zip(cpus) {
            core.cpu.store(cpu as u64, Ordering::Relaxed);
        }
        page
    }

    /// Whether a link in `/proc/PID/fd` leads to a work page.
    pub fn is_named(link: &[u8]) -> bool {
        let name = link.strip_prefix(b"/memfd:").and_then(|rest| rest.strip_prefix(NAME.as_bytes()));
        name.is_some_and(|rest| rest.is_empty() || rest == b" (deleted)")
    }

    /// The page of another process, to be read only.
    ///
    /// # Errors
    /// The file is no work page, could shrink under the reader, or cannot be mapped.
    pub fn open(file: File) -> io::Result<WorkPage> {
        let bytes = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        let is_fixed = fcntl_get_seals(&file)?.contains(SealFlags::SHRINK);
        if !is_fixed || bytes == 0 || !bytes.is_multiple_of(size_of::<CoreWork>()) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let words = SharedWords::mapped(&file, bytes / size_of::<CoreWork>(), ProtFlags::READ)?;
        Ok(WorkPage { words, _file: None })
    }

    /// The blocks of all cores.
    pub fn cores(&self) -> &[CoreWork] {
        self.words.all()
    }
}

/// A memory file of a fixed size.
fn memory_file(bytes: usize) -> io::Result<OwnedFd> {
    let file = memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, bytes as u64)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

/// Adds to a word that only the calling core writes.
#[inline]
fn add(word: &AtomicU64, more: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

impl CoreWork {
    /// The core has a further request.
    #[inline]
    pub fn count_request(&self) {
        add(&self.requests, 1);
    }

    /// The core has sent the body of an answer.
    #[inline]
    pub fn count_body(&self, bytes: u64) {
        add(&self.body_bytes, bytes);
    }

    /// Shows the counts of the core's event loop.
    #[inline]
    pub fn show_loop(&self, events: u64, activations: u64, steals: u64) {
        self.events.store(events, Ordering::Relaxed);
        self.activations.store(activations, Ordering::Relaxed);
        self.steals.store(steals, Ordering::Relaxed);
    }

    /// The number of requests.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// The cpu of the core.
    pub fn cpu(&self) -> u64 {
        self.cpu.load(Ordering::Relaxed)
    }

    /// The counts, in the order of [`WORK_COUNTS`].
    pub fn counts(&self) -> [u64; WORK_COUNTS.len()] {
        [&self.requests, &self.body_bytes, &self.events, &self.activations, &self.steals]
            .map(|word| word.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn other_mapping_shows_counts_of_each_core() {
        let page = WorkPage::create(&[0, 3]);
        let descriptor = page._file.as_ref().expect("the system has memory files").as_raw_fd();
        let path = format!("/proc/self/fd/{descriptor}");
        let link = std::fs::read_link(&path).unwrap();
        assert!(WorkPage::is_named(link.as_os_str().as_encoded_bytes()), "{link:?}");
        let seen = WorkPage::open(File::open(path).unwrap()).unwrap();
        page.cores()[1].count_request();
        page.cores()[1].count_body(700);
        page.cores()[1].count_body(7);
        page.cores()[1].show_loop(5, 3, 1);
        assert_eq!(seen.cores().len(), 2);
        assert_eq!((seen.cores()[1].cpu(), seen.cores()[1].requests()), (3, 1));
        assert_eq!(seen.cores()[1].counts(), [1, 707, 5, 3, 1]);
        assert_eq!(seen.cores()[0].counts(), [0; 5]);
    }

    #[test]
    fn foreign_file_is_no_work_page() {
        assert!(!WorkPage::is_named(b"/memfd:vermeil-work-10 (deleted)"));
        assert!(!WorkPage::is_named(b"/tmp/vermeil-work-1"));
        let unsealed = memfd_create(NAME, MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&unsealed, 128).unwrap();
        assert!(WorkPage::open(unsealed.into()).is_err(), "the file could shrink");
        assert!(WorkPage::open(memory_file(100).unwrap().into()).is_err());
        assert!(WorkPage::open(memory_file(0).unwrap().into()).is_err());
    }
}
