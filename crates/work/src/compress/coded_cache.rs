//! The compressed contents of files, in bounded memory.
//!
//! The key is the device and the strong tag of the file (its inode, size and time of change) with
//! the coding and its level. A weak tag is in the key with a hash of the content. So a changed file
//! has another key, and old contents are evicted once they are not asked for. Eviction scans like a
//! clock: a content that was used since the last scan stays. Tested below.

use bytes::Bytes;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use slab::Slab;
use std::hash::BuildHasher;
use vermeil_http::negotiate::Choice;

/// Bytes that a content takes beside its own bytes, about.
const SLOT_BYTES: u64 = 256;

/// The name of a content in a coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CodedName<'a> {
    /// The device of the file.
    pub device: u64,
    /// The tag of the content.
    pub tag: &'a [u8],
    /// The coding of the result.
    pub coding: Choice,
    /// The level of the coding.
    pub level: u8,
}

/// A name that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CodedKey {
    device: u64,
    tag: Box<[u8]>,
    coding: Choice,
    level: u8,
}

impl CodedName<'_> {
    pub(super) fn key(self) -> CodedKey {
        let Self { device, tag, coding, level } = self;
        CodedKey { device, tag: tag.into(), coding, level }
    }
}

impl CodedKey {
    pub(super) fn name(&self) -> CodedName<'_> {
        let Self { device, ref tag, coding, level } = *self;
        CodedName { device, tag, coding, level }
    }
}

/// The result of compressing a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodedContent {
    /// The compressed content.
    Shorter(Bytes),
    /// The coded content is not shorter.
    Useless,
}

#[derive(Debug, Default)]
pub(super) struct CodedCache {
    hasher: RandomState,
    by_key: HashTable<usize>,
    slots: Slab<CodedSlot>,
    /// Position of the eviction scan.
    hand: usize,
    bytes: u64,
}

#[derive(Debug)]
struct CodedSlot {
    key: CodedKey,
    content: CodedContent,
    used: bool,
}

impl CodedSlot {
    fn bytes(&self) -> u64 {
        let content = match &self.content {
            CodedContent::Shorter(bytes) => bytes.len() as u64,
            CodedContent::Useless => 0,
        };
        SLOT_BYTES + content
    }
}

impl CodedCache {
    fn number(&self, name: CodedName<'_>) -> Option<usize> {
        let is = |number: &usize| self.slots[*number].key.name() == name;
        self.by_key.find(self.hasher.hash_one(name), is).copied()
    }

    pub(super) fn find(&mut self, name: CodedName<'_>) -> Option<CodedContent> {
        let number = self.number(name)?;
        let slot = &mut self.slots[number];
        slot.used = true;
        Some(slot.content.clone())
    }

    /// Keeps `content`, unless it is larger than the bound.
    pub(super) fn insert(&mut self, key: CodedKey, content: CodedContent, bytes_max: u64) {
        if let Some(before) = self.number(key.name()) {
            self.remove(before);
        }
        let slot = CodedSlot { key, content, used: false };
        let bytes = slot.bytes();
        if bytes > bytes_max {
            return;
        }
        while self.bytes + bytes > bytes_max {
            self.evict();
        }
        self.bytes += bytes;
        let hash = self.hasher.hash_one(slot.key.name());
        let number = self.slots.insert(slot);
        let Self { hasher, by_key, slots, .. } = self;
        by_key.insert_unique(hash, number, |number| hasher.hash_one(slots[*number].key.name()));
    }

    /// Removes the next content that was not used since the last scan. There must be one content.
    fn evict(&mut self) {
        loop {
            self.hand = if self.hand + 1 < self.slots.capacity() { self.hand + 1 } else { 0 };
            let Some(slot) = self.slots.get_mut(self.hand) else { continue };
            if !std::mem::take(&mut slot.used) {
                return self.remove(self.hand);
            }
        }
    }

    fn remove(&mut self, number: usize) {
        let slot = self.slots.remove(number);
        self.bytes -= slot.bytes();
        let hash = self.hasher.hash_one(slot.key.name());
        self.by_key.find_entry(hash, |other| *other == number).expect("each slot has its key").remove();
    }

    /// Bytes in use.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the contents alone.
    pub(super) fn content_bytes(&self) -> u64 {
        self.bytes - SLOT_BYTES * self.slots.len() as u64
    }

    /// Number of contents.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(tag: &str, coding: Choice) -> CodedName<'_> {
        CodedName { device: 1, tag: tag.as_bytes(), coding, level: 1 }
    }

    fn key(tag: &str, coding: Choice) -> CodedKey {
        name(tag, coding).key()
    }

    fn content(bytes: usize) -> CodedContent {
        CodedContent::Shorter(vec![b'x'; bytes].into())
    }

    fn holds(cache: &mut CodedCache, tag: &str) -> bool {
        cache.find(name(tag, Choice::Gzip)).is_some()
    }

    #[test]
    fn cache_keeps_contents_by_file_coding_and_level() {
        let mut cache = CodedCache::default();
        cache.insert(key("a", Choice::Gzip), content(10), 10_000);
        cache.insert(key("a", Choice::Br), CodedContent::Useless, 10_000);
        assert_eq!(cache.find(name("a", Choice::Gzip)), Some(content(10)));
        assert_eq!(cache.find(name("a", Choice::Br)), Some(CodedContent::Useless));
        assert_eq!(cache.find(CodedName { level: 2, ..name("a", Choice::Gzip) }), None);
        assert_eq!(cache.find(CodedName { device: 2, ..name("a", Choice::Gzip) }), None);
        assert_eq!(cache.find(name("b", Choice::Gzip)), None);
        cache.insert(key("a", Choice::Gzip), content(20), 10_000);
        assert_eq!((cache.len(), cache.bytes()), (2, 2 * SLOT_BYTES + 20));
    }

    #[test]
    fn full_cache_evicts_unused_contents_first() {
        let (mut cache, most) = (CodedCache::default(), 4 * (SLOT_BYTES + 100));
        for tag in ["a", "b", "c", "d"] {
            cache.insert(key(tag, Choice::Gzip), content(100), most);
        }
        assert_eq!(cache.bytes(), most);
        assert!(holds(&mut cache, "a") && holds(&mut cache, "c"));
        cache.insert(key("e", Choice::Gzip), content(100), most);
        cache.insert(key("f", Choice::Gzip), content(100), most);
        assert!(holds(&mut cache, "a") && holds(&mut cache, "c"));
        assert!(!holds(&mut cache, "b") && !holds(&mut cache, "d"));
        assert_eq!((cache.len(), cache.bytes()), (4, most));
        cache.insert(key("large", Choice::Gzip), content(10_000), most);
        assert!(!holds(&mut cache, "large") && cache.len() == 4);
        for number in 0..100 {
            cache.insert(key(&number.to_string(), Choice::Gzip), content(number * 3), most);
            assert!(cache.bytes() <= most);
        }
    }
}
