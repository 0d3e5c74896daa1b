//! A fair semaphore for tasks: a future for a permit, and a permit that is returned on drop.
//!
//! Leaves out the permits and the queue (`fair_semaphore.rs`). Tested in `tests.rs`.

use crate::{
    fair_semaphore::{FairSemaphore, PermitOutcome},
    wait_queue::WaitTicket,
};
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

/// A number of permits for tasks of any core or thread. Waiting tasks get permits in the order in
/// which they began to wait. A clone is the same semaphore.
///
/// ```
/// use vermeil_queue::Semaphore;
///
/// let queries = Semaphore::new(2);
/// let first = queries.try_acquire().expect("two permits are free");
/// let _second = queries.try_acquire().expect("a permit is free");
/// assert!(queries.try_acquire().is_none());
/// drop(first);
/// assert_eq!(queries.free(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore(Arc<FairSemaphore<Waker>>);

impl Semaphore {
    /// A semaphore with `permits` free permits.
    pub fn new(permits: usize) -> Self {
        Self(Arc::new(FairSemaphore::new(permits)))
    }

    /// Takes a permit if a permit is free. A task that waits goes first.
    #[inline]
    pub fn try_acquire(&self) -> Option<SemaphorePermit> {
        self.0.try_acquire().then(|| SemaphorePermit(self.0.clone()))
    }

    /// Waits for a permit. A dropped future leaves the queue, and passes on a permit that it had
    /// got.
    pub fn acquire(&self) -> AcquirePermit {
        AcquirePermit { semaphore: self.0.clone(), ticket: None }
    }

    /// The number of free permits.
    pub fn free(&self) -> usize {
        self.0.free()
    }

    /// The number of waiting tasks.
    pub fn waiting(&self) -> usize {
        self.0.waiting()
    }
}

/// A permit of a [`Semaphore`], returned on drop.
#[derive(Debug)]
pub struct SemaphorePermit(Arc<FairSemaphore<Waker>>);

impl Drop for SemaphorePermit {
    fn drop(&mut self) {
        if let Some(next) = self.0.release() {
            next.wake();
        }
    }
}

/// A future for a permit of a [`Semaphore`].
#[derive(Debug)]
#[must_use = "a future does nothing until it is awaited"]
pub struct AcquirePermit {
    semaphore: Arc<FairSemaphore<Waker>>,
    ticket: Option<WaitTicket>,
}

impl Future for AcquirePermit {
    type Output = SemaphorePermit;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<SemaphorePermit> {
        let waits = match self.ticket {
            Some(ticket) => self.semaphore.replace(ticket, &mut context.waker().clone()),
            None if self.semaphore.try_acquire() => false,
            None => match self.semaphore.acquire(context.waker().clone()) {
                PermitOutcome::Acquired(_) => false,
                PermitOutcome::Waits(ticket) => {
                    self.ticket = Some(ticket);
                    true
                }
            },
        };
        if waits {
            return Poll::Pending;
        }
        self.ticket = None;
        Poll::Ready(SemaphorePermit(self.semaphore.clone()))
    }
}

impl Drop for AcquirePermit {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take()
            && self.semaphore.leave(ticket).is_none()
        {
            drop(SemaphorePermit(self.semaphore.clone()));
        }
    }
}
