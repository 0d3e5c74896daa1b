//! Facts about folders that the server does not watch: which precompressed siblings a folder has.
//!
//! A folder without any name that ends in `.br`, `.zst` or `.gz` needs no look-up of siblings. The
//! store keeps this fact in eight bytes per folder: a fingerprint of the folder's identity and
//! times, and the fact in the lowest bits. A name that appears in a folder moves the folder's time
//! of modification, so an outdated fact is not found again. A fact is kept only if that time is so
//! old that a later change gets another time (`SETTLE_MS`). Tested below and in `tests/cold.rs`.

use super::{
    entry::SETTLE_MS,
    open::{FileValidator, WouldBlock},
    root::is_told,
};
use foldhash::quality::RandomState;
use rustix::{fs::RawDir, io::Errno};
use std::{
    hash::BuildHasher,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};
use vermeil_http::negotiate::Choice;
use vermeil_io::{CacheOnly, list_on_core, list_on_thread};

/// The suffixes of precompressed siblings.
pub(super) const SIBLINGS: [(Choice, &[u8]); 3] =
    [(Choice::Br, b".br"), (Choice::Zstd, b".zst"), (Choice::Gzip, b".gz")];

/// Bits of a word for the fact; the rest is the fingerprint.
const FACT_BITS: u64 = 0b111;

/// Words in the table, 2 MB when used: room for the folders of 100,000 hosts at less than half.
const WORDS: usize = 1 << 18;

/// Words that a folder may be in: a line of the processor's cache.
const WAYS: usize = 8;

/// Names that a scan on a thread reads before it gives up: about 1 ms. A folder with more names may
/// have any sibling.
const NAMES_MAX: usize = 4096;

/// Names that a scan on a core reads before it leaves the folder to a thread: about 50 µs.
const NAMES_ON_CORE_MAX: usize = 256;

/// Bytes of names per system call.
const READ_BYTES: usize = 16 * 1024;

/// Which siblings a folder may have, as bits in the order of [`SIBLINGS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SiblingSet(u8);

impl SiblingSet {
    pub(super) const NONE: Self = Self(0);
    pub(super) const ANY: Self = Self(FACT_BITS as u8);

    /// The set in the lowest bits of a word.
    pub(super) fn of_bits(word: u64) -> Self {
        Self((word & FACT_BITS) as u8)
    }

    /// The set as the lowest bits of a word.
    pub(super) fn bits(self) -> u64 {
        u64::from(self.0)
    }

    /// The codings and suffixes to look for.
    pub(super) fn to_look_for(self) -> impl Iterator<Item = (Choice, &'static [u8])> {
        SIBLINGS.into_iter().enumerate().filter(move |(i, _)| self.0 >> i & 1 == 1).map(|(_, found)| found)
    }

    /// Whether the folder may have siblings in this coding.
    pub(super) fn has(self, coding: Choice) -> bool {
        self.to_look_for().any(|(other, _)| other == coding)
    }

    fn add(&mut self, name: &[u8]) {
        for (i, (_, suffix)) in SIBLINGS.iter().enumerate() {
            self.0 |= u8::from(name.ends_with(suffix)) << i;
        }
    }
}

/// The facts of all folders.
pub(super) struct FolderFacts {
    /// Made with the first fact. Relaxed: each word is whole in itself.
    words: OnceLock<Box<[AtomicU64]>>,
    hasher: RandomState,
}

impl FolderFacts {
    pub(super) fn new() -> Self {
        Self { words: OnceLock::new(), hasher: RandomState::default() }
    }

    /// The words in which a folder's fact may be, and the fingerprint.
    fn place(&self, folder: &FileValidator) -> (usize, u64) {
        let first = self.hasher.hash_one(folder.file_id()) as usize % (WORDS / WAYS) * WAYS;
        // Never zero, because that is an empty word.
        (first, self.hasher.hash_one(folder) & !FACT_BITS | 1 << 63)
    }

    /// The siblings that the folder may have, if known.
    pub(super) fn find(&self, folder: &FileValidator) -> Option<SiblingSet> {
        let (first, fingerprint) = self.place(folder);
        let words = &self.words.get()?[first..first + WAYS];
        let found = words.iter().map(|word| word.load(Ordering::Relaxed));
        let mut found = found.filter(|word| word & !FACT_BITS == fingerprint);
        found.next().map(SiblingSet::of_bits)
    }

    fn insert(&self, folder: &FileValidator, siblings: SiblingSet) {
        let (first, fingerprint) = self.place(folder);
        let words = self.words.get_or_init(|| (0..WORDS).map(|_| AtomicU64::new(0)).collect());
        let words = &words[first..first + WAYS];
        let is_free = |word: &&AtomicU64| word.load(Ordering::Relaxed) == 0;
        // Facts of former states of folders are in the table too. Nothing tells them, so any fact
        // may have to make room.
        let any = &words[(fingerprint >> 32) as usize % WAYS];
        let word = words.iter().find(is_free).unwrap_or(any);
        word.store(fingerprint | siblings.bits(), Ordering::Relaxed);
    }

    /// Whether a fact about the folder would be kept at `now_ms`, since 1970.
    pub(super) fn is_learnable(folder: &FileValidator, now_ms: i64) -> bool {
        folder.modified.ms_ago(now_ms) >= SETTLE_MS
    }

    /// Opens a folder, which was `seen` before, reads its names, and keeps the fact. A folder whose
    /// names cannot be read may have any sibling.
    ///
    /// With [`CacheOnly::No`] this may wait for the disk. A core reads the names of a small folder
    /// itself where listings were quick lately (`untold_reads.rs` of `vermeil-io`).
    ///
    /// # Errors
    /// [`WouldBlock`]: a thread that may wait has to read the names.
    pub(super) fn learn(
        &self,
        seen: &FileValidator,
        cache: CacheOnly,
        open: impl FnOnce() -> Result<OwnedFd, Errno>,
    ) -> Result<SiblingSet, WouldBlock> {
        let look = || match open() {
            Ok(folder) => look_into(folder.as_fd(), seen, cache),
            Err(Errno::AGAIN) => Err(WouldBlock),
            Err(_) => Ok((SiblingSet::ANY, true)),
        };
        let (siblings, is_same) = match cache {
            CacheOnly::Yes => list_on_core(seen.device, look).unwrap_or(Err(WouldBlock))?,
            CacheOnly::No => list_on_thread(seen.device, look)?,
        };
        if is_same {
            self.insert(seen, siblings);
        }
        Ok(siblings)
    }
}

/// The siblings in the open `folder`, and whether the folder is as it was `seen`.
fn look_into(
    folder: BorrowedFd<'_>,
    seen: &FileValidator,
    cache: CacheOnly,
) -> Result<(SiblingSet, bool), WouldBlock> {
    // A file system of other machines may change the folder without moving its times.
    let siblings = match cache {
        _ if !is_told(folder) => SiblingSet::ANY,
        CacheOnly::Yes => scan(folder, NAMES_ON_CORE_MAX).ok_or(WouldBlock)?,
        CacheOnly::No => scan(folder, NAMES_MAX).unwrap_or(SiblingSet::ANY),
    };
    Ok((siblings, FileValidator::of(folder).is_ok_and(|now| now == *seen)))
}

/// The siblings among the names in `folder`. `None` if the folder has more names than `names_max`.
fn scan(folder: BorrowedFd<'_>, names_max: usize) -> Option<SiblingSet> {
    let mut buffer = [MaybeUninit::uninit(); READ_BYTES];
    let mut names = RawDir::new(folder, &mut buffer);
    let (mut siblings, mut count) = (SiblingSet::NONE, 0);
    while let Some(found) = names.next() {
        let Ok(found) = found else { return Some(SiblingSet::ANY) };
        siblings.add(found.file_name().to_bytes());
        count += 1;
        if siblings == SiblingSet::ANY {
            return Some(siblings);
        }
        if count == names_max {
            return None;
        }
    }
    Some(siblings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};

    fn open(path: &std::path::Path) -> (File, FileValidator) {
        let folder = File::open(path).unwrap();
        let seen = FileValidator::of(folder.as_fd()).unwrap();
        (folder, seen)
    }

    fn learn(facts: &FolderFacts, folder: File, seen: &FileValidator) -> SiblingSet {
        facts.learn(seen, CacheOnly::No, || Ok(folder.into())).unwrap()
    }

    #[test]
    fn fact_is_lost_with_any_change_of_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let facts = FolderFacts::new();
        fs::write(dir.path().join("page"), "").unwrap();
        let (folder, seen) = open(dir.path());
        assert_eq!(facts.find(&seen), None);
        let learnt = learn(&facts, folder, &seen);
        assert_eq!(facts.find(&seen), Some(learnt));
        let mut after = seen;
        // Within a tick of the kernel's clock the folder has the same times.
        while after.modified == seen.modified {
            fs::write(dir.path().join("page.gz"), "").unwrap();
            fs::remove_file(dir.path().join("page")).ok();
            fs::write(dir.path().join("page"), "").unwrap();
            after = open(dir.path()).1;
        }
        assert_eq!(facts.find(&after), None);
        assert!(!FolderFacts::is_learnable(&after, after.modified.ms() + SETTLE_MS - 1));
        assert!(FolderFacts::is_learnable(&after, after.modified.ms() + SETTLE_MS));
    }

    #[test]
    fn core_leaves_folder_with_many_names_to_a_thread() {
        let (few, many) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in 0..=NAMES_ON_CORE_MAX {
            fs::write(many.path().join(name.to_string()), "").unwrap();
        }
        fs::write(few.path().join("page"), "").unwrap();
        let facts = FolderFacts::new();
        // A number that no file system has, because other tests list folders too.
        let open = |path| {
            let (folder, mut seen) = open(path);
            seen.device = u64::MAX - 2;
            (folder, seen)
        };
        let learn_on_core =
            |(folder, seen): (File, _)| facts.learn(&seen, CacheOnly::Yes, || Ok(folder.into()));
        assert_eq!(learn_on_core(open(few.path())), Err(WouldBlock), "the first listings are for threads");
        let is_quick = (0..200_000).any(|_| {
            let (folder, seen) = open(few.path());
            learn(&facts, folder, &seen);
            learn_on_core(open(few.path())).is_ok()
        });
        assert!(is_quick);
        assert_eq!(learn_on_core(open(many.path())), Err(WouldBlock));
    }

    #[test]
    fn scan_finds_each_kind_of_sibling() {
        for (name, expected) in [("a", 0), ("a.br", 1), ("a.zst", 2), (".gz", 4), ("gz", 0), ("a.gzip", 0)] {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join(name), "").unwrap();
            assert_eq!(scan(open(dir.path()).0.as_fd(), NAMES_MAX), Some(SiblingSet(expected)), "{name}");
        }
        let codings = SiblingSet(5).to_look_for().map(|(coding, _)| coding);
        assert!(codings.eq([Choice::Br, Choice::Gzip]));
    }
}
