//! The receive buffers that all streams of a driver share.
//!
//! Contains one mapping: the ring through which buffers are offered to the kernel, then the
//! buffers. A buffer is either offered, or filled and parked in the list of a stream. The lists are
//! threaded through one array, so a stream keeps six bytes. (Offsets of a cache line between
//! buffers, so that their first lines do not compete for the same cache sets, made no difference to
//! small requests.) Tested in `tests/suite` (exhaustion, unread streams) and by the property test
//! there.

#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::ring::Ring;

/// The only buffer group.
pub(super) const GROUP: u16 = 0;

/// The kernel's bound on entries of a buffer ring.
const COUNT_MAX: u16 = 1 << 15;

const NONE: u16 = u16::MAX;

/// Alignment of the start of the buffers.
const PAGE: usize = 4096;

/// The filled buffers of a stream, oldest first.
#[derive(Clone, Copy)]
pub(super) struct Parked {
    first: u16,
    last: u16,
    pub(super) count: u16,
}

impl Parked {
    pub(super) const EMPTY: Self = Self { first: NONE, last: NONE, count: 0 };
}

#[derive(Clone, Copy)]
struct BufferSlot {
    next: u16,
    /// Bytes received.
    filled: u32,
    /// Bytes already consumed.
    taken: u32,
}

pub(super) struct Buffers {
    mapping: NonNull<u8>,
    mapping_bytes: usize,
    buffers_at: usize,
    buffer_bytes: usize,
    slots: Vec<BufferSlot>,
    /// Written only here; the kernel reads the tail through the ring.
    tail: u16,
    parked: usize,
}

impl Buffers {
    /// Maps the buffers and registers them with `ring`. The buffers must be dropped after the ring.
    pub(super) fn new(ring: &Ring, count: u16, buffer_bytes: u32) -> io::Result<Self> {
        let count = count.clamp(1, COUNT_MAX).next_power_of_two();
        let buffer_bytes = buffer_bytes.max(1) as usize;
        let buffers_at = (usize::from(count) * size_of::<BufRingEntry>()).next_multiple_of(PAGE);
        let mapping_bytes = buffers_at + usize::from(count) * buffer_bytes;
        // SAFETY: a fresh private mapping without aliases.
        let mapping = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                mapping_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let mapping = NonNull::new(mapping.cast()).expect("mmap never gives null");
        let slots = vec![BufferSlot { next: NONE, filled: 0, taken: 0 }; usize::from(count)];
        let mut buffers =
            Self { mapping, mapping_bytes, buffers_at, buffer_bytes, slots, tail: 0, parked: 0 };
        // SAFETY: the mapping starts with room for `count` entries, page-aligned, and lives until
        // after the ring.
        unsafe {
            let address = mapping.as_ptr().addr() as u64;
            ring.io().submitter().register_buf_ring_with_flags(address, count, GROUP, 0)?;
        }
        for id in 0..count {
            buffers.offer(id);
        }
        Ok(buffers)
    }

    /// Whether a buffer is offered to the kernel, according to the completions seen so far.
    pub(super) fn has_offered(&self) -> bool {
        self.parked < self.slots.len()
    }

    /// Whether more than half of the buffers hold unread bytes, so that later bytes may find no
    /// buffer.
    pub(super) fn are_short(&self) -> bool {
        self.parked > self.slots.len() / 2
    }

    fn at(&self, id: u16) -> *mut u8 {
        let offset = self.buffers_at + usize::from(id) * self.buffer_bytes;
        debug_assert!(offset + self.buffer_bytes <= self.mapping_bytes);
        // SAFETY: the offset is within the mapping for every id of a slot.
        unsafe { self.mapping.as_ptr().add(offset) }
    }

    /// Gives a buffer to the kernel.
    fn offer(&mut self, id: u16) {
        let entries = self.mapping.as_ptr().cast::<BufRingEntry>();
        let at = usize::from(self.tail) & (self.slots.len() - 1);
        let address = self.at(id).addr() as u64;
        // SAFETY: `at` is below the number of entries. The kernel does not read this entry before
        // the tail passes it. The entry is free, because there are as many entries as buffers, and
        // this buffer was not offered.
        let entry = unsafe { &mut *entries.add(at) };
        entry.set_addr(address);
        entry.set_len(self.buffer_bytes as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is in the first entry of the mapping, aligned, and is only ever accessed
        // atomically.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(entries).cast_mut()) };
        // Release: the kernel's acquire of the tail must see the entry.
        tail.store(self.tail, Ordering::Release);
    }

    /// A buffer returned with unwanted bytes.
    pub(super) fn discard(&mut self, id: u16) {
        self.offer(id);
    }

    /// A buffer returned with `filled` bytes for the stream of `list`.
    pub(super) fn park(&mut self, list: &mut Parked, id: u16, filled: u32) {
        debug_assert!(filled as usize <= self.buffer_bytes);
        self.slots[usize::from(id)] = BufferSlot { next: NONE, filled, taken: 0 };
        if list.count == 0 {
            list.first = id;
        } else {
            self.slots[usize::from(list.last)].next = id;
        }
        list.last = id;
        list.count += 1;
        self.parked += 1;
    }

    /// Appends parked bytes to `out`, at most a buffer's worth or the free capacity of `out`, and
    /// offers emptied buffers again.
    pub(super) fn take(&mut self, list: &mut Parked, out: &mut Vec<u8>) -> usize {
        let most = self.buffer_bytes.max(out.capacity() - out.len());
        let mut room = most;
        while list.count > 0 && room > 0 {
            let slot = &mut self.slots[usize::from(list.first)];
            let count = ((slot.filled - slot.taken) as usize).min(room);
            let start = slot.taken as usize;
            slot.taken += count as u32;
            let emptied = slot.taken == slot.filled;
            // SAFETY: the kernel has filled the buffer up to `filled` and has released it.
            let bytes = unsafe { std::slice::from_raw_parts(self.at(list.first).add(start), count) };
            out.extend_from_slice(bytes);
            room -= count;
            if !emptied {
                break;
            }
            self.unpark(list);
        }
        most - room
    }

    /// Offers all buffers of a list again.
    pub(super) fn clear(&mut self, list: &mut Parked) {
        while list.count > 0 {
            self.unpark(list);
        }
    }

    fn unpark(&mut self, list: &mut Parked) {
        let id = list.first;
        list.first = self.slots[usize::from(id)].next;
        list.count -= 1;
        self.parked -= 1;
        self.offer(id);
    }
}

impl Buffers {
    /// Keeps the mapping for ever.
    pub(super) fn leak(&mut self) {
        self.mapping_bytes = 0;
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        if self.mapping_bytes == 0 {
            return;
        }
        // SAFETY: the ring is gone (the owner drops the ring first), so the kernel writes here no
        // more, and no slice of the mapping outlives a call.
        let unmapped = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapping_bytes) };
        debug_assert!(unmapped.is_ok());
    }
}
