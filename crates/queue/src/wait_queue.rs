//! The waiters for a bounded resource, in order of arrival.
//!
//! A waiter joins with a waker, a token or other data, and gets a ticket. The holder of the lock
//! around the queue removes the first waiter to grant the wait. A ticket that the queue no longer
//! knows was granted. Plain data without a lock: `fair_semaphore.rs` has the usual lock. A resource
//! whose count is no plain number of permits keeps a lock of its own (`runtime/src/capacity.rs`,
//! and the server's `php/pool.rs`). Tested through these files.

use std::{collections::BTreeMap, mem};

/// The identity of a waiter in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitTicket(u64);

/// Waiters, first in, first out.
#[derive(Debug)]
pub struct WaitQueue<W> {
    waiting: BTreeMap<WaitTicket, W>,
    joined: u64,
}

impl<W> Default for WaitQueue<W> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), joined: 0 }
    }
}

impl<W> WaitQueue<W> {
    /// Adds a waiter behind all others.
    pub fn join(&mut self, waiter: W) -> WaitTicket {
        self.joined += 1;
        let ticket = WaitTicket(self.joined);
        self.waiting.insert(ticket, waiter);
        ticket
    }

    /// The waiter that is granted next.
    pub fn first(&self) -> Option<&W> {
        self.waiting.first_key_value().map(|(_, waiter)| waiter)
    }

    /// Removes the first waiter, which gets its grant. The caller wakes the waiter, outside of the
    /// lock, because the code of a waker may use the resource.
    pub fn grant_first(&mut self) -> Option<(WaitTicket, W)> {
        self.waiting.pop_first()
    }

    /// Whether the waiter still waits. Exchanges its data for `waiter`, so the caller can drop the
    /// previous data outside of the lock.
    pub fn replace(&mut self, ticket: WaitTicket, waiter: &mut W) -> bool {
        self.waiting.get_mut(&ticket).map(|before| mem::swap(before, waiter)).is_some()
    }

    /// Removes a waiter that gives up. Returns `None` if the waiter was granted before.
    pub fn leave(&mut self, ticket: WaitTicket) -> Option<W> {
        self.waiting.remove(&ticket)
    }

    /// The number of waiters.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no waiter waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
