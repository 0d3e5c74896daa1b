//! Waiting for room: for an event in a core's bound of posted events, or in a bounded color.
//!
//! Waiters stand in a line, and the first waiter is let in first. A waiter that is let in owns its
//! place, so a later poster cannot take the place. A bounded color (`bounded.rs`) counts under the
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
    core::Core,
    error::Stops,
    shared::{CoreShared, RuntimeShared},
};
use slab::Slab;
use std::{
    collections::BTreeMap,
    future::Future,
    mem,
    pin::Pin,
    sync::Mutex,
    task::{Context, Poll, Waker},
};

/// The waiters for room, in order of arrival.
#[derive(Default)]
pub(crate) struct CapacityWaiters {
    waiting: BTreeMap<u64, Waker>,
    came: u64,
}

impl CapacityWaiters {
    /// Adds a waiter, and returns its ticket.
    pub(crate) fn join(&mut self, waker: &Waker) -> u64 {
        self.came += 1;
        self.waiting.insert(self.came, waker.clone());
        self.came
    }

    /// Whether the waiter with this ticket still waits. Exchanges its waker with `waker`, so the
    /// caller can drop the previous waker outside of the lock.
    pub(crate) fn has(&mut self, ticket: u64, waker: &mut Waker) -> bool {
        let waits = self.waiting.get_mut(&ticket);
        waits.map(|woken| mem::swap(woken, waker)).is_some()
    }

    /// Lets the first waiter in, and returns its waker for the caller to wake.
    pub(crate) fn admit(&mut self) -> Option<Waker> {
        self.waiting.pop_first().map(|(_, waker)| waker)
    }

    /// Removes the waiter with this ticket, and returns its waker if it still waited.
    pub(crate) fn leave(&mut self, ticket: u64) -> Option<Waker> {
        self.waiting.remove(&ticket)
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// A bounded set of events.
pub(crate) trait Capacity {
    /// Takes a place, or joins the line and returns the ticket.
    fn enter(&self, waker: &Waker) -> Option<u64>;

    /// Whether the waiter with this ticket still waits. If not, the waiter has its place.
    fn waits(&self, ticket: u64, waker: &Waker) -> bool;

    /// Gives up the wait, or the place that the wait led to.
    fn give_up(&self, ticket: u64);
}

/// A future that waits for a place in a room, and has the place when ready.
pub(crate) struct CapacityWait<'a, R: Capacity> {
    room: R,
    ends: &'a EndWaiters,
    ticket: Option<u64>,
    /// The index of this waiter in [`EndWaiters`].
    told: Option<usize>,
}

impl<'a, R: Capacity> CapacityWait<'a, R> {
    pub(crate) fn new(shared: &'a RuntimeShared, room: R) -> Self {
        Self { room, ends: &shared.ends, ticket: None, told: None }
    }
}

impl<R: Capacity + Unpin> Future for CapacityWait<'_, R> {
    type Output = Result<(), Stops>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (wait, waker) = (self.get_mut(), context.waker());
        let waits = match wait.ticket {
            Some(ticket) => wait.room.waits(ticket, waker),
            None => {
                wait.ticket = wait.room.enter(waker);
                wait.ticket.is_some()
            }
        };
        if !waits {
            wait.ticket = None;
            return Poll::Ready(Ok(()));
        }
        match wait.ends.note(&mut wait.told, waker) {
            Ok(()) => Poll::Pending,
            Err(stops) => Poll::Ready(Err(stops)),
        }
    }
}

impl<R: Capacity> Drop for CapacityWait<'_, R> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.room.give_up(ticket);
        }
        if let Some(told) = self.told.take() {
            self.ends.forget(told);
        }
    }
}

/// Wakers to wake when the runtime has ended; `None` afterwards.
pub(crate) struct EndWaiters(Mutex<Option<Slab<Waker>>>);

impl Default for EndWaiters {
    fn default() -> Self {
        Self(Mutex::new(Some(Slab::new())))
    }
}

impl EndWaiters {
    /// Registers `waker`, at index `told` if the waiter has one.
    fn note(&self, told: &mut Option<usize>, waker: &Waker) -> Result<(), Stops> {
        let mut waker = waker.clone();
        let mut ends = self.0.lock().expect("nothing panics under this lock");
        let wakers = ends.as_mut().ok_or(Stops)?;
        match told {
            Some(told) => mem::swap(&mut wakers[*told], &mut waker),
            None => *told = Some(wakers.insert(waker)),
        }
        Ok(())
    }

    fn forget(&self, told: usize) {
        let mut ends = self.0.lock().expect("nothing panics under this lock");
        let forgotten = ends.as_mut().map(|wakers| wakers.remove(told));
        drop((ends, forgotten));
    }

    /// Wakes all waiters, because the runtime has ended.
    pub(crate) fn tell(&self) {
        let told = self.0.lock().expect("nothing panics under this lock").take();
        told.into_iter().flatten().for_each(|(_, waker)| waker.wake());
    }
}

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
        if self.shared.enter(self.core, self.shared.limits.events_per_core) {
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
        let (core, bound) = (self.core(index), self.limits.events_per_core);
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
