//! The bounds of all caches by default: together a small part of the memory that the server may
//! use.
//!
//! The page cache of the kernel keeps every file anyway, so a content in the server's own memory
//! saves system calls, not a disk. The bench `tail` measures the gain.

use std::path::Path;
use std::sync::OnceLock;

/// The caches get one part of so many of the memory.
const MACHINE_PARTS: u64 = 100;
/// The least that the caches get together, in bytes.
const BYTES_MIN: u64 = 128 << 20;
/// Bytes of an entry of a cached path.
const ENTRY_BYTES: u64 = 1 << 10;
/// Bytes of a watched folder in the kernel: the mark, and an inode and a directory entry that stay
/// in memory.
const WATCH_BYTES: u64 = 1280;

/// The bounds of all caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheMemory {
    /// Contents of files, in bytes: one half.
    pub content_bytes: u64,
    /// Compressed contents of files, in bytes: one eighth.
    pub compressed_bytes: u64,
    /// Cached paths: one quarter.
    pub entries: usize,
    /// Watched folders: one eighth.
    pub watches: usize,
}

impl CacheMemory {
    /// The bounds for a server that may use `bytes` of memory.
    pub fn of(bytes: u64) -> Self {
        let budget = (bytes / MACHINE_PARTS).max(BYTES_MIN);
        let count = |part: u64, each: u64| usize::try_from(part / each).unwrap_or(usize::MAX);
        Self {
            content_bytes: budget / 2,
            compressed_bytes: budget / 8,
            entries: count(budget / 4, ENTRY_BYTES),
            watches: count(budget / 8, WATCH_BYTES),
        }
    }

    /// The bounds of each of so many instances.
    pub fn of_each(self, instances: usize) -> Self {
        let instances = instances.max(1);
        Self {
            content_bytes: self.content_bytes / instances as u64,
            compressed_bytes: self.compressed_bytes / instances as u64,
            entries: self.entries / instances,
            watches: self.watches / instances,
        }
    }

    /// The bounds for a server on this machine, read once. If the kernel does not report the
    /// memory, the caches get the least.
    pub fn here() -> Self {
        static HERE: OnceLock<CacheMemory> = OnceLock::new();
        *HERE.get_or_init(|| Self::of(vermeil_topology::allowed_memory(Path::new("/")).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_add_up_to_a_hundredth() {
        for (machine, budget) in
            [(1 << 30, 128 << 20), (24 << 30, (24 << 30) / 100), (1 << 40, (1 << 40) / 100)]
        {
            let memory = CacheMemory::of(machine);
            let sum = memory.content_bytes
                + memory.compressed_bytes
                + memory.entries as u64 * ENTRY_BYTES
                + memory.watches as u64 * WATCH_BYTES;
            assert!((budget * 99 / 100..=budget).contains(&sum), "{memory:?} of {machine}");
            assert_eq!(memory.of_each(4).content_bytes, memory.content_bytes / 4);
            assert_eq!(memory.of_each(0), memory);
        }
    }
}
