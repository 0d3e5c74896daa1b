//! Folders whose files the cold look-up reads many times in a second: their siblings, and their
//! file systems where these refuse reads without waiting.
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
use vermeil_io::WithoutNowait;

/// Words in the table, 256 KB when used.
const WORDS: usize = 1 << 15;

/// A folder is busy after so many looks at its state, each less than [`GAP_MS`] after the one
/// before. A single client that asks for some files by hand meets no busy folder.
const BUSY_LOOKS: u64 = 7;

/// Milliseconds without a look after which a folder is no longer busy.
const GAP_MS: u64 = 1000;

/// A word has, from the lowest bit: the siblings, the looks (at most [`BUSY_LOOKS`]), the place of
/// the file system, the milliseconds of the last look, and the fingerprint of the folder's path.
const LOOKS_SHIFT: u32 = 3;
const PLACE_SHIFT: u32 = 6;
const PLACE_MASK: u64 = 0b11111;
const MS_SHIFT: u32 = 11;
const FINGERPRINT_SHIFT: u32 = 31;

const _: () = assert!((WithoutNowait::PLACES as u64) < PLACE_MASK, "one number is left for none");

/// The clock in a word begins again after 17 minutes.
const MS_MASK: u64 = (1 << (FINGERPRINT_SHIFT - MS_SHIFT)) - 1;

/// The folders that were looked at lately.
pub(super) struct BusyFolders {
    /// Made with the first look. Relaxed: each word is whole in itself.
    words: OnceLock<Box<[AtomicU64]>>,
    hasher: RandomState,
}

/// The result of a look at a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeenFolder {
    /// The siblings that the folder may have.
    pub(super) siblings: SiblingSet,
    /// The file system, if it refuses `RWF_NOWAIT`.
    pub(super) without_nowait: Option<WithoutNowait>,
}

impl SeenFolder {
    fn of_bits(word: u64) -> Self {
        let place = (word >> PLACE_SHIFT & PLACE_MASK) as u8;
        Self { siblings: SiblingSet::of_bits(word), without_nowait: WithoutNowait::at(place) }
    }

    fn bits(self) -> u64 {
        let place = self.without_nowait.map_or(PLACE_MASK, |known| known.place().into());
        self.siblings.bits() | place << PLACE_SHIFT
    }
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

    /// The result of the last look, if the folder is busy and the look is less than `age_ms` old.
    pub(super) fn find(&self, key: FolderKey, now_ms: u64, age_ms: u64) -> Option<SeenFolder> {
        if Mechanism::BusyFolders.is_off() {
            return None;
        }
        let word = self.words.get()?[key.0 as usize % WORDS].load(Ordering::Relaxed);
        let is_busy = word >> LOOKS_SHIFT & 0b111 == BUSY_LOOKS;
        (key.is_of(word) && is_busy && elapsed_ms(word, now_ms) < age_ms).then(|| SeenFolder::of_bits(word))
    }

    /// Records a look at the state of the folder.
    pub(super) fn note(&self, key: FolderKey, seen: SeenFolder, now_ms: u64) {
        let words = self.words.get_or_init(|| (0..WORDS).map(|_| AtomicU64::new(0)).collect());
        let word = &words[key.0 as usize % WORDS];
        let before = word.load(Ordering::Relaxed);
        let continues = key.is_of(before) && elapsed_ms(before, now_ms) < GAP_MS;
        let looks = if continues { (before >> LOOKS_SHIFT & 0b111) + 1 } else { 1 };
        let after = key.0 >> FINGERPRINT_SHIFT << FINGERPRINT_SHIFT
            | (now_ms & MS_MASK) << MS_SHIFT
            | looks.min(BUSY_LOOKS) << LOOKS_SHIFT
            | seen.bits();
        word.store(after, Ordering::Relaxed);
    }
}

fn elapsed_ms(word: u64, now_ms: u64) -> u64 {
    now_ms.wrapping_sub(word >> MS_SHIFT) & MS_MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: SeenFolder = SeenFolder { siblings: SiblingSet::NONE, without_nowait: None };
    const ANY: SeenFolder = SeenFolder { siblings: SiblingSet::ANY, without_nowait: None };

    #[test]
    fn folder_becomes_busy_and_is_looked_at_once_per_age() {
        let folders = BusyFolders::new();
        let (key, other) = (folders.key("a"), folders.key("b"));
        for look in 0..BUSY_LOOKS {
            assert_eq!(folders.find(key, 5000 + look, 1000), None, "after {look} looks");
            folders.note(key, NONE, 5000 + look);
        }
        let last = 5000 + BUSY_LOOKS - 1;
        assert_eq!(folders.find(key, last + 999, 1000), Some(NONE));
        assert_eq!(folders.find(other, last + 999, 1000), None);
        assert_eq!(folders.find(key, last + 1000, 1000), None, "time for a look");
        assert_eq!(folders.find(key, last, 0), None, "every use is a look");
        folders.note(key, ANY, last + 999);
        assert_eq!(folders.find(key, last + 1500, 1000), Some(ANY), "still busy");
    }

    #[test]
    fn folder_has_the_last_look_whole() {
        for siblings in [SiblingSet::NONE, SiblingSet::ANY] {
            for place in 0..=WithoutNowait::PLACES {
                let seen = SeenFolder { siblings, without_nowait: WithoutNowait::at(place) };
                assert_eq!(SeenFolder::of_bits(seen.bits()), seen);
                assert_eq!(seen.bits() >> LOOKS_SHIFT & 0b111, 0, "the looks have bits of their own");
                assert!(seen.bits() < 1 << MS_SHIFT);
            }
        }
    }

    #[test]
    fn folder_without_looks_for_a_while_is_not_busy() {
        let folders = BusyFolders::new();
        let key = folders.key("a");
        for _ in 0..2 * BUSY_LOOKS {
            folders.note(key, NONE, 10);
        }
        folders.note(key, NONE, 10 + GAP_MS);
        assert_eq!(folders.find(key, 10 + GAP_MS, 1000), None);
    }
}
