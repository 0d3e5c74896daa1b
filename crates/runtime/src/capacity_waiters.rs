//! The queue of posters that wait for capacity, and the end of a runtime, which ends every wait.
//!
//! Leaves out the two bounds: a bounded color (`affinity.rs`) and a core (`capacity.rs`). Tested in
//! `tests/capacity.rs`.

use crate::error::Stops;
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
    pub(crate) fn new(ends: &'a EndWaiters, room: R) -> Self {
        Self { room, ends, ticket: None, told: None }
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
