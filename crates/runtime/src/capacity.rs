//! Waiting for room in a core's bound of posted events.
//!
//! The bound is no semaphore, because a core counts its own events without a locked operation
//! (`in_flight.rs`), and a semaphore would add two to every event. The waiters stand in the queue
//! that the semaphore uses too, and the first waiter is let in first. The fast path adds only a
//! look at a flag on the same line of memory:
//!
//! - A new waiter counts as an event at once, so posts find no room. The waiter is let in when the
//!   events without the waiters leave room.
//! - The waiter sets the flag, then checks whether it is let in. A thread that removes an event, or
//!   takes back an event that found no room, lets waiters in if it sees the flag. At least one of
//!   the two sees the other (the queue's `in_flight.md` has the argument). The core itself checks
//!   the flag after each activation, and for the last time after it has announced its sleep.
//!
//! Wakers are woken and dropped outside of the locks, because a waker's code may call this module.
//! At the runtime's end all remaining waiters get an error (`EndWaiters`). Tested in
//! `tests/capacity.rs`.

use crate::{
    core::Core,
    shared::{CoreShared, RuntimeShared},
};
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};
use vermeil_io::contain;
use vermeil_queue::WaitTicket;

/// A future for a place in a core's bound of posted events.
pub(crate) struct CoreRoom<'a> {
    shared: &'a RuntimeShared,
    core: u32,
    ticket: Option<WaitTicket>,
}

impl<'a> CoreRoom<'a> {
    pub(crate) fn new(shared: &'a RuntimeShared, core: u32) -> Self {
        Self { shared, core, ticket: None }
    }

    fn core(&self) -> &CoreShared {
        self.shared.core(self.core)
    }

    /// Takes a place, or joins the waiters and returns the ticket.
    fn enter(&self, waker: &Waker) -> Option<WaitTicket> {
        if self.shared.enter(self.core, self.shared.settings.limits.events_per_core) {
            return None;
        }
        let core = self.core();
        let mut waiters = core.waiters.lock().expect("nothing panics under this lock");
        core.queued.enter_remote();
        let ticket = waiters.join(waker.clone());
        core.queued.set_awaited(true);
        drop(waiters);
        self.shared.admit(self.core);
        self.waits(ticket, waker).then_some(ticket)
    }

    /// Whether the waiter with this ticket still waits. If not, the waiter has its place.
    fn waits(&self, ticket: WaitTicket, waker: &Waker) -> bool {
        let mut waker = waker.clone();
        self.core().waiters.lock().expect("nothing panics under this lock").replace(ticket, &mut waker)
    }
}

impl Future for CoreRoom<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.ticket = match self.ticket {
            Some(ticket) => self.waits(ticket, context.waker()).then_some(ticket),
            None => self.enter(context.waker()),
        };
        if self.ticket.is_some() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for CoreRoom<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        // The waiter counts as an event in either case.
        let left = self.core().waiters.lock().expect("nothing panics under this lock").leave(ticket);
        self.shared.leave(self.core);
        if left.is_some() {
            self.shared.admit(self.core);
        }
    }
}

impl RuntimeShared {
    /// Lets in waiters on core `index`, as far as there is room.
    #[cold]
    pub(crate) fn admit(&self, index: u32) {
        let (core, bound) = (self.core(index), self.settings.limits.events_per_core);
        let mut woken = Vec::new();
        let mut waiters = core.waiters.lock().expect("nothing panics under this lock");
        // `len` counts the waiters too.
        while core.queued.len() < bound.saturating_add(waiters.len())
            && let Some((_, waker)) = waiters.grant_first()
        {
            woken.push(waker);
        }
        core.queued.set_awaited(!waiters.is_empty());
        drop(waiters);
        woken.into_iter().for_each(|waker| contain(|| waker.wake()));
    }
}

impl Core {
    /// Lets in waiters on this core.
    #[inline]
    pub(crate) fn attend_waiters(&self) {
        if self.mine().queued.is_awaited() {
            self.shared.admit(self.index.0);
        }
    }
}
