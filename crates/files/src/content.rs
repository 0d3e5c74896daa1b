//! The bytes of a file: in memory, in a sealed copy, or behind a descriptor whose file may change
//! during sending.
//!
//! This file reads a content whole, without mixing two versions. For the sender of a descriptor
//! this file checks that the file is unchanged, checks whether a part is in the page cache, and
//! loads a part. Tested in `tests/content.rs` and `tests/torture.rs`.

use super::{memory::ContentMemory, open::FileValidator};
use bytes::Bytes;
use std::{
    fs::File,
    io::{self, ErrorKind},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use vermeil_io::{CacheOnly, SealedFile, append_nowait, read_nowait, read_waiting};

mod budget;

pub(super) use budget::{Charge, ContentBudget};

/// The place of a representation's bytes.
#[derive(Debug)]
pub enum Content {
    /// In memory, complete and unchanging. An asynchronous sender should hold the [`EntryHandle`]
    /// rather than clone the bytes, because a clone writes a counter that all cores share.
    ///
    /// [`EntryHandle`]: super::EntryHandle
    Memory(Bytes),
    /// In a sealed copy, which the kernel sends without another copy of the bytes.
    Sealed(SealedContent),
    /// Behind a descriptor.
    Disk(OpenFile),
}

impl Content {
    /// The bytes, if they are in memory and cannot change.
    pub fn bytes(&self) -> Option<&Bytes> {
        match self {
            Self::Memory(bytes) => Some(bytes),
            Self::Sealed(content) => Some(&content.bytes),
            Self::Disk(_) => None,
        }
    }
}

/// The sealed copy of a large file.
#[derive(Debug)]
pub struct SealedContent {
    copy: Arc<SealedFile>,
    /// The same memory.
    bytes: Bytes,
    /// Whether every change of the file since the copy moves the file's time of change.
    is_told: bool,
    _descriptor: Charge,
}

/// Largest content in bytes for which [`Content::Memory`] is used. Sending a larger content by
/// `sendfile(2)` costs less than copying. Each thread keeps a buffer of this size for cold files.
pub(super) const SMALL_BYTES_MAX: u64 = 64 * 1024;

impl SealedContent {
    pub(super) fn new(copy: SealedFile, is_told: bool, descriptor: Charge) -> Self {
        let copy = Arc::new(copy);
        let bytes = Bytes::from_owner(SharedCopy(copy.clone()));
        Self { copy, bytes, is_told, _descriptor: descriptor }
    }

    /// The bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(super) fn is_told(&self) -> bool {
        self.is_told
    }
}

impl AsFd for SealedContent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.copy.as_fd()
    }
}

/// The owner of a [`SealedContent`]'s bytes.
struct SharedCopy(Arc<SealedFile>);

impl AsRef<[u8]> for SharedCopy {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

/// An open file, and its validator at the time of the open.
#[derive(Debug)]
pub struct OpenFile {
    file: Arc<OwnedFd>,
    validator: FileValidator,
    opened: Instant,
    /// Microseconds after `opened` until which the whole file counts as resident in memory.
    resident_until_us: AtomicU64,
    /// Gives back the descriptor budget on drop. `None` if the budget was exhausted: the file is
    /// then opened for a single use.
    _charge: Option<Charge>,
}

/// Distance in bytes between residence samples: the kernel's default readahead window, because the
/// kernel reads a window at once.
const SAMPLE_STRIDE: u64 = 128 * 1024;

/// Time for which a fully resident file counts as resident. Sampling 1 MiB costs 4 % of sending it.
/// The kernel does not reclaim pages that are read that often, and at worst the core waits for the
/// disk once.
const RESIDENT_FOR: Duration = Duration::from_millis(100);

/// Longest tick of the clock that stamps changes, in milliseconds: 10 with `CONFIG_HZ=100`, doubled
/// for safety.
const TICK_MS: u64 = 20;

/// Bytes per read of a [`WarmJob`]: the kernel's default readahead window.
const WARM_BYTES: usize = 128 * 1024;

impl OpenFile {
    pub(super) fn new(file: OwnedFd, validator: FileValidator, charge: Option<Charge>) -> Self {
        Self {
            file: Arc::new(file),
            validator,
            opened: Instant::now(),
            resident_until_us: AtomicU64::new(0),
            _charge: charge,
        }
    }

    /// Whether the file still has the length and content of the time of the open. The sender asks
    /// before each part and once more before the last part. On `false` the sender cuts the
    /// connection. A replaced or unlinked file stays the same behind an open descriptor. Costs a
    /// system call that does not wait.
    pub fn still_same(&self) -> bool {
        FileValidator::of(self.file.as_fd()).is_ok_and(|now| self.validator.has_content_of(&now))
    }

    /// The descriptor. Cloning the `Arc` writes a counter that all cores share.
    pub fn descriptor(&self) -> &Arc<OwnedFd> {
        &self.file
    }

    /// Whether `len` bytes at `offset` are probably in memory, so that sending does not wait for
    /// the disk. Costs a system call per 128 KiB, or none if the whole file was resident a moment
    /// ago. Returns `false` on a file system without this information.
    pub fn is_resident(&self, offset: u64, len: u64) -> bool {
        let now = self.opened.elapsed();
        if as_micros(now) < self.resident_until_us.load(Ordering::Relaxed) {
            return true;
        }
        let end = offset.saturating_add(len).min(self.validator.bytes);
        let resident = self.sample(offset, end);
        if resident && offset == 0 && end == self.validator.bytes {
            self.resident_until_us.store(as_micros(now + RESIDENT_FOR), Ordering::Relaxed);
        }
        resident
    }

    fn sample(&self, offset: u64, end: u64) -> bool {
        let mut byte = [0];
        let mut here = |at| matches!(read_nowait(self.file.as_fd(), &mut byte, at), Ok(1));
        let mut at = offset;
        while at < end {
            if !here(at) {
                return false;
            }
            at += SAMPLE_STRIDE;
        }
        end <= offset || here(end - 1)
    }

    /// Time until each further change is sure to move the file's time of change; `None` if that
    /// holds now. File systems stamp changes with a clock that ticks, so two changes within a tick
    /// have the same time.
    pub fn until_told(&self) -> Option<Duration> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let age_ms = self.validator.changed.ms_ago(i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
        let left = TICK_MS.checked_sub(u64::try_from(age_ms).ok()?).filter(|&left| left > 0);
        left.map(Duration::from_millis)
    }

    /// Appends to `into` the part of `count` bytes at `offset` that is in memory, or waits for the
    /// disk.
    ///
    /// # Errors
    /// `WouldBlock`: no byte is in memory, and `cache` forbids waiting. Otherwise the error of the
    /// read.
    pub fn append(
        &self,
        into: &mut Vec<u8>,
        count: usize,
        offset: u64,
        cache: CacheOnly,
    ) -> io::Result<usize> {
        if cache == CacheOnly::Yes {
            return append_nowait(self.file.as_fd(), into, count, offset);
        }
        let start = into.len();
        into.resize(start + count, 0);
        let read = read_waiting(self.file.as_fd(), &mut into[start..], offset);
        into.truncate(start + *read.as_ref().unwrap_or(&0));
        read
    }

    /// A job that brings `len` bytes at `offset` into memory.
    pub fn warm_job(&self, offset: u64, len: u64) -> WarmJob {
        WarmJob { file: self.file.clone(), offset, len }
    }
}

fn as_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Reads a part of a file into the page cache and waits for the disk as long as needed.
#[derive(Debug)]
pub struct WarmJob {
    file: Arc<OwnedFd>,
    offset: u64,
    len: u64,
}

impl WarmJob {
    /// Reads the part. A part beyond the end of the file is no error.
    ///
    /// # Errors
    /// The read failed, for example because the disk failed.
    pub fn run(self) -> io::Result<()> {
        let mut scratch = vec![0; WARM_BYTES];
        let (mut at, end) = (self.offset, self.offset.saturating_add(self.len));
        while at < end {
            let want = usize::try_from(end - at).unwrap_or(WARM_BYTES).min(WARM_BYTES);
            match read_waiting(self.file.as_fd(), &mut scratch[..want], at)? {
                0 => break,
                count => at += count as u64,
            }
        }
        Ok(())
    }
}

/// Why a content could not be read whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadFailure {
    /// The content is not in memory, and the caller may not wait.
    WouldBlock,
    /// The file changed during the read.
    Changed,
    /// The read failed, for example because the disk failed. A sender from the descriptor gets the
    /// same error.
    Failed,
}

/// Reads the whole of `file` into `memory`. As [`read_into`].
pub(super) fn read_whole(
    file: &File,
    validator: &FileValidator,
    cache: CacheOnly,
    memory: &ContentMemory,
) -> Result<Bytes, ReadFailure> {
    let length = usize::try_from(validator.bytes).map_err(|_| ReadFailure::Failed)?;
    let mut room = memory.room(length);
    read_into(file, validator, room.bytes_mut(), cache)?;
    Ok(room.into())
}

/// Reads the whole of `file` into `bytes`, which has the length of the file. The file must still
/// have `validator` after the last byte is read.
pub(super) fn read_into(
    file: &File,
    validator: &FileValidator,
    bytes: &mut [u8],
    cache: CacheOnly,
) -> Result<(), ReadFailure> {
    let mut have = 0;
    while have < bytes.len() {
        let read = match cache {
            CacheOnly::Yes => read_nowait(file.as_fd(), &mut bytes[have..], have as u64),
            CacheOnly::No => read_waiting(file.as_fd(), &mut bytes[have..], have as u64),
        };
        match read {
            Ok(0) => return Err(ReadFailure::Changed),
            Ok(count) => have += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(ReadFailure::WouldBlock),
            Err(_) => return Err(ReadFailure::Failed),
        }
    }
    match FileValidator::of(file.as_fd()) {
        Ok(after) if after == *validator => Ok(()),
        _ => Err(ReadFailure::Changed),
    }
}

/// Bytes of a file per comparison: two pieces of this size fit into an L1 cache of 32 KiB.
const COMPARED_BYTES: usize = 16 * 1024;

/// Whether `file`, which has the length of `bytes`, holds `bytes`.
///
/// # Errors
/// `WouldBlock` if the read would wait and `cache` forbids waiting. Otherwise the error of the
/// read.
pub(super) fn is_content(file: &File, bytes: &[u8], cache: CacheOnly) -> io::Result<bool> {
    let mut piece = [0; COMPARED_BYTES];
    let mut at = 0;
    while at < bytes.len() {
        let read = match cache {
            CacheOnly::Yes => read_nowait(file.as_fd(), &mut piece, at as u64),
            CacheOnly::No => read_waiting(file.as_fd(), &mut piece, at as u64),
        };
        match read {
            Ok(0) => return Ok(false),
            Ok(count) if bytes[at..].starts_with(&piece[..count]) => at += count,
            Ok(_) => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
