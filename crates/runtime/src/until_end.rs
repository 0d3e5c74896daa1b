//! Waits that the end of the runtime ends.
//!
//! Leaves out the two reasons to wait: a bounded color (`affinity.rs`) and a core (`capacity.rs`).
//! Tested in `tests/capacity.rs`.

use crate::error::Stops;
use slab::Slab;
use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::Mutex,
    task::{Context, Poll, Waker},
};
use vermeil_io::contain;

/// A future that ends with an error when the runtime has ended.
pub(crate) struct UntilEnd<'a, F> {
    future: F,
    ends: &'a EndWaiters,
    /// The index of this waiter in [`EndWaiters`].
    told: Option<usize>,
}

impl<'a, F> UntilEnd<'a, F> {
    pub(crate) fn new(ends: &'a EndWaiters, future: F) -> Self {
        Self { future, ends, told: None }
    }
}

impl<F: Future + Unpin> Future for UntilEnd<'_, F> {
    type Output = Result<F::Output, Stops>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let wait = self.get_mut();
        if let Poll::Ready(output) = Pin::new(&mut wait.future).poll(context) {
            return Poll::Ready(Ok(output));
        }
        match wait.ends.note(&mut wait.told, context.waker()) {
            Ok(()) => Poll::Pending,
            Err(stops) => Poll::Ready(Err(stops)),
        }
    }
}

impl<F> Drop for UntilEnd<'_, F> {
    fn drop(&mut self) {
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
        told.into_iter().flatten().for_each(|(_, waker)| contain(|| waker.wake()));
    }
}
