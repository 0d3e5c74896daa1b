//! The memory of contents: the allocator's, or a region of its own on the configured kind of pages.
//!
//! A content that does not fit into the region goes to the allocator, so the region's size never
//! bounds the cache. Tested below and through the binary (`crates/e2e/tests/e2e/resources.rs`).

use bytes::Bytes;
use std::{ops::DerefMut, sync::Arc};
use vermeil_io::{Got, Pages, Region, RegionSlot, Slots};

/// Extra share of memory to map, as a divisor. Slots are on average an eighth larger than their
/// contents, and gaps take as much. Only reserved pages take memory before use.
const ROOM_PART: u64 = 4;

/// The memory for contents of files.
pub(crate) struct ContentMemory {
    slots: Option<Arc<Slots>>,
    described: Option<String>,
}

impl ContentMemory {
    /// Memory for `bytes` of contents.
    pub(super) fn new(asked: Pages, bytes: u64) -> Self {
        let none = |described| Self { slots: None, described };
        if asked == Pages::Small || bytes == 0 {
            return none(None);
        }
        let mapped = usize::try_from(bytes + bytes / ROOM_PART).map_err(|error| error.to_string());
        let mapped = mapped.and_then(|bytes| Region::map(bytes, asked).map_err(|error| error.to_string()));
        let (region, why) = match mapped {
            Ok(mapped) => mapped,
            Err(why) => return none(Some(format!("small pages for files: {why}"))),
        };
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        // The allocator packs contents on small pages better.
        if region.got() == Got::Small {
            return none(Some(format!("small pages for files{why}")));
        }
        let described = format!("{} MiB for files on {}{why}", region.bytes() >> 20, region.got());
        Self { slots: Some(Slots::new(region)), described: Some(described) }
    }

    /// The kind of pages in use, for a line at start; `None` if the configuration asks for none.
    pub(crate) fn describe(&self) -> Option<&str> {
        self.described.as_deref()
    }

    /// Bytes of contents in the region, including the unused ends of their slots.
    #[cfg(test)]
    fn used(&self) -> u64 {
        self.slots.as_ref().map_or(0, |slots| slots.used() as u64)
    }

    /// Room for `bytes`, to be filled.
    pub(super) fn room(&self, bytes: usize) -> ContentRoom {
        match self.slots.as_ref().and_then(|slots| slots.take(bytes)) {
            Some(slot) => ContentRoom::Slot(slot),
            None => ContentRoom::Allocated(vec![0; bytes]),
        }
    }
}

/// Room for a content.
pub(super) enum ContentRoom {
    Slot(RegionSlot),
    Allocated(Vec<u8>),
}

impl ContentRoom {
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Slot(slot) => slot.deref_mut(),
            Self::Allocated(bytes) => bytes,
        }
    }
}

impl From<ContentRoom> for Bytes {
    fn from(room: ContentRoom) -> Self {
        match room {
            ContentRoom::Slot(slot) => Self::from_owner(slot),
            ContentRoom::Allocated(bytes) => bytes.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_find_room_in_any_memory() {
        for pages in [Pages::Small, Pages::Transparent, Pages::Auto, Pages::Huge] {
            let memory = ContentMemory::new(pages, 1 << 20);
            let mut rooms: Vec<ContentRoom> = (0..40).map(|_| memory.room(60_000)).collect();
            rooms.iter_mut().zip(0..).for_each(|(room, mark)| room.bytes_mut().fill(mark));
            assert_eq!(memory.used() > 0, memory.slots.is_some());
            let contents: Vec<Bytes> = rooms.into_iter().map(Bytes::from).collect();
            assert!(contents.iter().zip(0..).all(|(content, mark)| content.iter().all(|byte| *byte == mark)));
            drop(contents);
            assert_eq!(memory.used(), 0);
            assert_eq!(memory.describe().is_some(), pages != Pages::Small);
        }
    }
}
