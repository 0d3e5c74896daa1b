//! The last look at each folder: its siblings, and its file system, if that refuses reads without
//! waiting.
//!
//! Only the state of a folder shows that a precompressed sibling appeared in the folder. The state
//! is nearly always the same, and costs a fifteenth of the request (by a profile of random files).
//! Therefore the cold look-up (`load/cold.rs`) takes the state of a folder once per [`recheck_ms`],
//! and not for each file. A folder that shares its word with another is looked at more often. A new
//! sibling is found that much later; meanwhile clients get the file itself, which is always right.
//! A sibling that changes or disappears is noticed at once, because the look-up opens each sibling
//! of a folder that has any. Tested below and in `tests/cold.rs`.
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

/// Words in the table: 1 MB, of which the kernel provides the pages that are used.
const WORDS: usize = 1 << 17;

/// A word has, from the lowest bit: the siblings, the place of the file system, the milliseconds of
/// the look, and the fingerprint of the folder's path.
const PLACE_SHIFT: u32 = 3;
const PLACE_MASK: u64 = 0b11111;
const MS_SHIFT: u32 = 8;
const FINGERPRINT_SHIFT: u32 = 34;

const _: () = assert!((WithoutNowait::PLACES as u64) < PLACE_MASK, "one number is left for none");

/// The clock in a word begins again after 18 hours. Then a look of that age, to the second, would
/// pass for a new one.
const MS_MASK: u64 = (1 << (FINGERPRINT_SHIFT - MS_SHIFT)) - 1;

/// The folders that were looked at lately.
pub(super) struct FolderLooks {
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

impl FolderLooks {
    pub(super) fn new() -> Self {
        Self { words: OnceLock::new(), hasher: RandomState::default() }
    }

    /// The key of the folder with this `name`, for example its path.
    pub(super) fn key(&self, name: impl Hash) -> FolderKey {
        FolderKey(self.hasher.hash_one(name))
    }

    /// The result of the last look, if the look is less than `age_ms` old.
    pub(super) fn find(&self, key: FolderKey, now_ms: u64, age_ms: u64) -> Option<SeenFolder> {
        if Mechanism::FolderLooks.is_off() {
            return None;
        }
        let word = self.words.get()?[key.0 as usize % WORDS].load(Ordering::Relaxed);
        (key.is_of(word) && elapsed_ms(word, now_ms) < age_ms).then(|| SeenFolder::of_bits(word))
    }

    /// Records a look at the state of the folder.
    pub(super) fn note(&self, key: FolderKey, seen: SeenFolder, now_ms: u64) {
        let words = self.words.get_or_init(|| (0..WORDS).map(|_| AtomicU64::new(0)).collect());
        let word =
            key.0 >> FINGERPRINT_SHIFT << FINGERPRINT_SHIFT | (now_ms & MS_MASK) << MS_SHIFT | seen.bits();
        words[key.0 as usize % WORDS].store(word, Ordering::Relaxed);
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
    fn look_holds_for_its_age() {
        let folders = FolderLooks::new();
        let (key, other) = (folders.key("a"), folders.key("b"));
        assert_eq!(folders.find(key, 5000, 1000), None);
        folders.note(key, NONE, 5000);
        assert_eq!(folders.find(key, 5999, 1000), Some(NONE));
        assert_eq!(folders.find(other, 5999, 1000), None);
        assert_eq!(folders.find(key, 6000, 1000), None, "time for a look");
        assert_eq!(folders.find(key, 5000, 0), None, "every use is a look");
        folders.note(key, ANY, 6000);
        assert_eq!(folders.find(key, 6999, 1000), Some(ANY));
        let hour_ms = 3_600_000;
        for hours in 1..18 {
            assert_eq!(folders.find(key, 6000 + hours * hour_ms, 1000), None, "after {hours} hours");
        }
    }

    #[test]
    fn look_is_kept_whole() {
        for siblings in [SiblingSet::NONE, SiblingSet::ANY] {
            for place in 0..=WithoutNowait::PLACES {
                let seen = SeenFolder { siblings, without_nowait: WithoutNowait::at(place) };
                assert_eq!(SeenFolder::of_bits(seen.bits()), seen);
                assert!(seen.bits() < 1 << MS_SHIFT);
            }
        }
    }
}
