//! Waiting for room: for an event in a core's bound of posted events, or in a bounded color.
//!
//! Waiters stand in a line, and the first waiter is let in first. A waiter that is let in owns its
//! place, so a later poster cannot take the place. A bounded color (`affinity.rs`) counts under the
//! lock of its line. A core counts without a lock (`in_flight.rs`), and the fast path adds only a
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
    capacity_waiters::Capacity,
    core::Core,
    shared::{CoreShared, RuntimeShared},
};
use std::task::Waker;

/// The room of a core.
pub(crate) struct CoreCapacity<'a> {
    pub(crate) shared: &'a RuntimeShared,
    pub(crate) core: u32,
}

impl CoreCapacity<'_> {
    fn core(&self) -> &CoreShared {
        self.shared.core(self.core)
    }
}

impl Capacity for CoreCapacity<'_> {
    fn enter(&self, waker: &Waker) -> Option<u64> {
        if self.shared.enter(self.core, self.shared.settings.limits.events_per_core) {
            return None;
        }
        let core = self.core();
        let mut waiters = core.waiters.lock().expect("nothing panics under this lock");
        core.queued.enter_remote();
        let ticket = waiters.join(waker);
        core.queued.set_awaited(true);
        drop(waiters);
        self.shared.admit(self.core);
        self.waits(ticket, waker).then_some(ticket)
    }

    fn waits(&self, ticket: u64, waker: &Waker) -> bool {
        let mut waker = waker.clone();
        self.core().waiters.lock().expect("nothing panics under this lock").has(ticket, &mut waker)
    }

    fn give_up(&self, ticket: u64) {
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
            && let Some(waker) = waiters.admit()
        {
            woken.push(waker);
        }
        core.queued.set_awaited(waiters.len() > 0);
        drop(waiters);
        woken.into_iter().for_each(Waker::wake);
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
