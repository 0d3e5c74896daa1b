//! A fair semaphore: a number of permits, and a queue of waiters for a permit.
//!
//! A free permit costs one compare-and-exchange. A returned permit goes to the longest waiter, and
//! no later caller can take the permit in between. The data of a waiter is the caller's choice: a
//! waker (`semaphore.rs`), or the token of a color that waits. Leaves out waking: a call returns
//! the waiter that has a permit now, and the caller wakes the waiter. The argument is in
//! `fair_semaphore.md`; checked in `model/fair_semaphore.rs`.

use crate::{
    canary::{Bug, planted},
    sync::{AtomicUsize, Mutex, Ordering},
    wait_queue::{WaitQueue, WaitTicket},
};

/// No permit is free, and waiters wait.
const AWAITED: usize = usize::MAX;

/// Permits, and waiters with the data `W`.
#[derive(Debug)]
pub struct FairSemaphore<W> {
    /// The number of free permits, or [`AWAITED`]. Becomes or leaves `AWAITED` only under the lock
    /// of `queue`: the word is `AWAITED` while the queue has waiters.
    free: AtomicUsize,
    queue: Mutex<WaitQueue<W>>,
}

/// The outcome of asking for a permit.
#[derive(Debug)]
pub enum PermitOutcome<W> {
    /// The caller has a permit, and its data back.
    Acquired(W),
    /// The caller waits.
    Waits(WaitTicket),
}

impl<W> FairSemaphore<W> {
    /// A semaphore with `permits` free permits, at most `usize::MAX - 1`.
    pub fn new(permits: usize) -> Self {
        Self { free: AtomicUsize::new(permits.min(AWAITED - 1)), queue: Mutex::new(WaitQueue::default()) }
    }

    /// Takes a permit, unless no permit is free.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        let mut free = self.free.load(Ordering::Relaxed);
        while free != 0 && free != AWAITED {
            // Acquire pairs with `release`: the new holder continues after the previous holder.
            match self.free.compare_exchange_weak(free, free - 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(changed) => free = changed,
            }
        }
        false
    }

    /// Takes a permit, or joins the waiters.
    pub fn acquire(&self, waiter: W) -> PermitOutcome<W> {
        if self.try_acquire() {
            return PermitOutcome::Acquired(waiter);
        }
        self.with(|queue| {
            if planted(Bug::WaitWithoutLook) {
                self.free.store(AWAITED, Ordering::Relaxed);
            }
            // A permit may have become free before the lock.
            while self.free.load(Ordering::Relaxed) != AWAITED {
                if self.try_acquire() {
                    return PermitOutcome::Acquired(waiter);
                }
                let marked = self.free.compare_exchange(0, AWAITED, Ordering::Relaxed, Ordering::Relaxed);
                if marked.is_ok() {
                    break;
                }
            }
            PermitOutcome::Waits(queue.join(waiter))
        })
    }

    /// Returns a permit. If a waiter gets the permit, returns this waiter, which the caller wakes.
    #[inline]
    #[must_use = "a waiter that is not woken waits for ever"]
    pub fn release(&self) -> Option<W> {
        let mut free = self.free.load(Ordering::Relaxed);
        while free != AWAITED {
            if planted(Bug::ReturnPermitInTwoSteps) {
                self.free.store(free + 1, Ordering::Release);
                return None;
            }
            // Release pairs with `try_acquire`.
            let order = if planted(Bug::RelaxedPermit) { Ordering::Relaxed } else { Ordering::Release };
            match self.free.compare_exchange_weak(free, free + 1, order, Ordering::Relaxed) {
                Ok(_) => return None,
                Err(changed) => free = changed,
            }
        }
        self.grant()
    }

    #[cold]
    fn grant(&self) -> Option<W> {
        self.with(|queue| {
            let first = queue.grant_first();
            if first.is_none() {
                // The last waiter has left. The lock keeps further waiters away.
                self.free.fetch_add(1, Ordering::Release);
            } else if queue.is_empty() {
                self.free.store(0, Ordering::Relaxed);
            }
            first.map(|(_, waiter)| waiter)
        })
    }

    /// Whether the waiter still waits; otherwise the waiter has its permit. Exchanges its data for
    /// `waiter`.
    pub fn replace(&self, ticket: WaitTicket, waiter: &mut W) -> bool {
        self.with(|queue| queue.replace(ticket, waiter))
    }

    /// Removes a waiter that gives up. Returns `None` if the waiter has a permit, which the caller
    /// then releases.
    #[must_use = "a permit that is not released is lost"]
    pub fn leave(&self, ticket: WaitTicket) -> Option<W> {
        self.with(|queue| {
            let left = queue.leave(ticket);
            if left.is_some() && queue.is_empty() && !planted(Bug::LeaveMark) {
                self.free.store(0, Ordering::Relaxed);
            }
            left
        })
    }

    /// Removes all waiters without a permit, because their resource has ended.
    pub fn take_waiting(&self) -> Vec<W> {
        self.with(|queue| {
            let all: Vec<W> = std::iter::from_fn(|| queue.grant_first()).map(|(_, waiter)| waiter).collect();
            if !all.is_empty() {
                self.free.store(0, Ordering::Relaxed);
            }
            all
        })
    }

    /// The number of free permits. Exact only while no other thread uses the semaphore.
    pub fn free(&self) -> usize {
        let free = self.free.load(Ordering::Relaxed);
        if free == AWAITED { 0 } else { free }
    }

    /// The number of waiters.
    pub fn waiting(&self) -> usize {
        self.with(|queue| queue.len())
    }

    fn with<R>(&self, f: impl FnOnce(&mut WaitQueue<W>) -> R) -> R {
        f(&mut self.queue.lock().expect("nothing panics under this lock"))
    }
}
