//! Folders whose files the cold look-up reads many times in a second, and their siblings.
//!
//! Only the state of a folder shows that a precompressed sibling appeared in the folder. So the
//! cold look-up (`load/cold.rs`) takes the state of the folder for each file. In a busy folder the
//! state is nearly always the same, and costs a fifteenth of the request (by a profile of random
//! files). Therefore the state of a busy folder is taken once per [`recheck_ms`]. A new sibling is
//! found that much later; meanwhile clients get the file itself, which is always right. A sibling
//! that changes or disappears is noticed at once, because the look-up opens each sibling of a
//! folder that has any. Tested below and in `tests/cold.rs`.
//!
//! [`recheck_ms`]: super::StoreOptions::recheck_ms

use super::folder_facts::SiblingSet;
use foldhash::quality::RandomState;
use std::{
    hash::{BuildHasher, Hash},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};
use vermeil_ablation::Mechanism;

/// Words in the table, 256 KB when used.
const WORDS: usize = 1 << 15;

/// A folder is busy after so many looks at its state, each less than [`GAP_MS`] after the one
/// before. A single client that asks for some files by hand meets no busy folder.
const BUSY_LOOKS: u64 = 7;

/// Milliseconds without a look after which a folder is no longer busy.
const GAP_MS: u64 = 1000;

/// A word has, from the lowest bit: the siblings, the looks (at most [`BUSY_LOOKS`]), the
/// milliseconds of the last look, and the fingerprint of the folder's path.
const LOOKS_SHIFT: u32 = 3;
const MS_SHIFT: u32 = 6;
const FINGERPRINT_SHIFT: u32 = 26;

/// The clock in a word begins again after 17 minutes.
const MS_MASK: u64 = (1 << (FINGERPRINT_SHIFT - MS_SHIFT)) - 1;

/// The folders that were looked at lately.
pub(super) struct BusyFolders {
    /// Made with the first look. Relaxed: each word is whole in itself.
    words: OnceLock<Box<[AtomicU64]>>,
    hasher: RandomState,
}

/// The place of a folder in the table.
#[derive(Clone, Copy)]
pub(super) struct FolderKey(u64);

impl FolderKey {
    fn is_of(self, word: u64) -> bool {
        word != 0 && word >> FINGERPRINT_SHIFT == self.0 >> FINGERPRINT_SHIFT
    }
}

impl BusyFolders {
    pub(super) fn new() -> Self {
        Self { words: OnceLock::new(), hasher: RandomState::default() }
    }

    /// The key of the folder with this `name`, for example its path.
    pub(super) fn key(&self, name: impl Hash) -> FolderKey {
        FolderKey(self.hasher.hash_one(name))
    }

    /// The siblings that the folder may have, if the folder is busy and the last look at its state
    /// is less than `age_ms` old.
    pub(super) fn find(&self, key: FolderKey, now_ms: u64, age_ms: u64) -> Option<SiblingSet> {
        if Mechanism::BusyFolders.is_off() {
            return None;
        }
        let word = self.words.get()?[key.0 as usize % WORDS].load(Ordering::Relaxed);
        let is_busy = word >> LOOKS_SHIFT & 0b111 == BUSY_LOOKS;
        (key.is_of(word) && is_busy && elapsed_ms(word, now_ms) < age_ms).then(|| SiblingSet::of_bits(word))
    }

    /// Records a look at the state of the folder, which may have these `siblings`.
    pub(super) fn note(&self, key: FolderKey, siblings: SiblingSet, now_ms: u64) {
        let words = self.words.get_or_init(|| (0..WORDS).map(|_| AtomicU64::new(0)).collect());
        let word = &words[key.0 as usize % WORDS];
        let before = word.load(Ordering::Relaxed);
        let continues = key.is_of(before) && elapsed_ms(before, now_ms) < GAP_MS;
        let looks = if continues { (before >> LOOKS_SHIFT & 0b111) + 1 } else { 1 };
        let after = key.0 >> FINGERPRINT_SHIFT << FINGERPRINT_SHIFT
            | (now_ms & MS_MASK) << MS_SHIFT
            | looks.min(BUSY_LOOKS) << LOOKS_SHIFT
            | siblings.bits();
        word.store(after, Ordering::Relaxed);
    }
}

fn elapsed_ms(word: u64, now_ms: u64) -> u64 {
    now_ms.wrapping_sub(word >> MS_SHIFT) & MS_MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_becomes_busy_and_is_looked_at_once_per_age() {
        let folders = BusyFolders::new();
        let (key, other) = (folders.key("a"), folders.key("b"));
        for look in 0..BUSY_LOOKS {
            assert_eq!(folders.find(key, 5000 + look, 1000), None, "after {look} looks");
            folders.note(key, SiblingSet::NONE, 5000 + look);
        }
        let last = 5000 + BUSY_LOOKS - 1;
        assert_eq!(folders.find(key, last + 999, 1000), Some(SiblingSet::NONE));
        assert_eq!(folders.find(other, last + 999, 1000), None);
        assert_eq!(folders.find(key, last + 1000, 1000), None, "time for a look");
        assert_eq!(folders.find(key, last, 0), None, "every use is a look");
        folders.note(key, SiblingSet::ANY, last + 999);
        assert_eq!(folders.find(key, last + 1500, 1000), Some(SiblingSet::ANY), "still busy");
    }

    #[test]
    fn folder_without_looks_for_a_while_is_not_busy() {
        let folders = BusyFolders::new();
        let key = folders.key("a");
        for _ in 0..2 * BUSY_LOOKS {
            folders.note(key, SiblingSet::NONE, 10);
        }
        folders.note(key, SiblingSet::NONE, 10 + GAP_MS);
        assert_eq!(folders.find(key, 10 + GAP_MS, 1000), None);
    }
}
