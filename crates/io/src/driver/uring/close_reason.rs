//! The end of a driver: the kernel releases the memory that it may still read or write, or that
//! memory is leaked.
//!
//! Open operations are cancelled by id, which the kernel finds at once. Cancelling "all" walks over
//! everything under way for each cancelled operation, which takes seconds for ten thousand
//! connections. Tested in `tests/suite/turns.rs`.

use super::ring::RingWait;
use super::{NOBODY, Uring, listener, operation};
use crate::driver::table::{GenerationalTable, Id};
use std::time::Duration;

/// Maximum wait for an operation to end, and maximum number of consecutive vain waits, before
/// memory is leaked instead.
const FAREWELL: (Duration, u32) = (Duration::from_millis(100), 50);

impl Drop for Uring {
    /// Cancels all operations and waits until the kernel has released the driver's memory.
    fn drop(&mut self) {
        if !self.shared.queued.is_empty() {
            // Sends the queued operations, as far as the kernel takes them. A peer learns of a
            // refused operation by the close.
            let _ = self.turn(Some(Duration::ZERO));
        }
        self.close_everything();
        let mut in_vain = 0;
        while self.shared.ring.has_in_flight() || self.shared.ring.has_unsubmitted() {
            if in_vain == FAREWELL.1 || self.shared.ring.enter(RingWait::First(Some(FAREWELL.0))).is_err() {
                // The kernel may still use this memory, so the memory is leaked, because a later
                // write would corrupt other data.
                std::mem::forget(std::mem::replace(&mut self.streams, GenerationalTable::new()));
                self.shared.buffers.leak();
                return;
            }
            if self.lands() {
                in_vain = 0;
            } else {
                in_vain += 1;
                // Some operation has no id, or was not found by its id.
                self.shared.ring.cancel_all(NOBODY.pack(operation::SILENT));
            }
        }
    }
}

impl Uring {
    /// Cancels the operations under way, and closes descriptors that are not needed to receive
    /// their completions.
    fn close_everything(&mut self) {
        let shared = &mut self.shared;
        for (id, listener) in self.listeners.iter_mut() {
            listener.cancel(id, shared);
        }
        for (id, stream) in self.streams.iter_mut() {
            // Streams with a send under way must stay in the table, and the others may stay.
            let _ = stream.close(id, shared);
        }
        for (id, source) in self.sources.iter_mut() {
            source.cancel(id, &mut shared.ring);
        }
        let silent = NOBODY.pack(operation::SILENT);
        shared.ring.cancel(NOBODY.pack(operation::WAKER), silent);
    }

    /// Collects completions; returns whether an operation has ended.
    fn lands(&mut self) -> bool {
        let ring = &mut self.shared.ring;
        let mut landed = false;
        ring.collect(&mut self.batch);
        for completion in self.batch.drain(..) {
            let (operation, _) = Id::unpack(completion.user_data);
            if operation == operation::ACCEPT {
                drop(listener::accepted(completion));
            }
            if !completion.goes_on() && operation::is_counted(operation) {
                ring.landed();
                landed = true;
            }
        }
        landed
    }
}
