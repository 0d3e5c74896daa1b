//! The settings of compression: the bounds for all hosts together.

use crate::CacheMemory;

/// Default memory for compressed contents that are not in the cache, and that clients still
/// receive, in bytes: 256 MiB, at least 32 of the largest files.
pub const SENDING_BYTES: u64 = 256 << 20;

/// Default for the largest compressed file, in bytes: 8 MiB. The largest script bundles of sites
/// have about that size.
pub const FILE_BYTES_MAX: u64 = 8 << 20;

/// Default number of files that are compressed at once. The largest files take 8 MiB of content, 14
/// MB of encoder at the default levels and the result, so at most 400 MB together.
pub const FILES_MAX: usize = 16;

/// Default number of answers of programs that are compressed at once. An encoder has 3 MB at the
/// default levels and 10 MB at the highest, so at most 768 MB by default.
pub const ANSWERS_MAX: usize = 256;

/// The bounds of compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionOptions {
    /// Memory for compressed contents of files, in bytes.
    pub cache_bytes: u64,
    /// Memory for compressed contents of files outside of the cache, in bytes.
    pub sending_bytes: u64,
    /// The largest file that is compressed, in bytes.
    pub file_bytes_max: u64,
    /// The most files that are compressed at once.
    pub files_max: usize,
    /// The most answers of programs that are compressed at once.
    pub answers_max: usize,
}

impl CompressionOptions {
    /// The defaults of each of so many instances.
    pub fn of_each(instances: usize) -> Self {
        Self {
            cache_bytes: CacheMemory::here().of_each(instances).compressed_bytes,
            sending_bytes: SENDING_BYTES,
            file_bytes_max: FILE_BYTES_MAX,
            files_max: FILES_MAX,
            answers_max: ANSWERS_MAX,
        }
    }
}
