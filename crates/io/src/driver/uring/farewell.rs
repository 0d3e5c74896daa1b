//! The end of a driver: the kernel gives back the memory that it may still read or write, or that memory is lost.
//!
//! What is open is cancelled by its own name, which the kernel finds at once: to cancel "all" it walks over everything under way for
//! each thing that it cancels, seconds for ten thousand connections. Tested in `tests/suite/turns.rs`.

use super::ring::Wait;
use super::{NOBODY, Uring, listener, operation};
use crate::driver::table::{Id, Table};
use std::time::Duration;

/// Waits at most this long for something to end, and for so many times in a row in vain, before memory is leaked instead.
const FAREWELL: (Duration, u32) = (Duration::from_millis(100), 50);

impl Drop for Uring {
    /// Cancels everything and waits until the kernel has let go of our memory.
    fn drop(&mut self) {
        self.close_everything();
        let mut in_vain = 0;
        while self.shared.ring.has_in_flight() || self.shared.ring.has_unsubmitted() {
            if in_vain == FAREWELL.1 || self.shared.ring.enter(Wait::First(Some(FAREWELL.0))).is_err() {
                // The kernel may still use this memory: better lost than written to later.
                std::mem::forget(std::mem::replace(&mut self.streams, Table::new()));
                self.shared.buffers.leak();
                return;
            }
            if self.lands() {
                in_vain = 0;
            } else {
                in_vain += 1;
                // Something has no name of its own, or was not found by it.
                self.shared.ring.cancel_all(NOBODY.pack(operation::SILENT));
            }
        }
    }
}

impl Uring {
    /// Cancels what is under way, and closes what is not needed to take in how it ends.
    fn close_everything(&mut self) {
        let shared = &mut self.shared;
        for (id, listener) in self.listeners.iter_mut() {
            listener.cancel(id, shared);
        }
        for (id, stream) in self.streams.iter_mut() {
            // Those with a send under way stay in the table, and the others may.
            let _ = stream.close(id, shared);
        }
        for (id, source) in self.sources.iter_mut() {
            source.cancel(id, &mut shared.ring);
        }
        let silent = NOBODY.pack(operation::SILENT);
        shared.ring.cancel(NOBODY.pack(operation::BELL), silent);
    }

    /// Takes in what has completed; gives whether an operation has ended by that.
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
