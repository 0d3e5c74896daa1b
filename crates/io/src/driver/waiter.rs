//! A waiting task.
//!
//! The waker stays in place after use, so a connection that the same task polls again and again
//! never clones a waker. Tested here.

use std::task::{Context, Waker};

use crate::contained::contain;

/// The waker of the task that waits for a direction of a stream, and whether the task waits now.
#[derive(Default)]
pub(crate) struct Waiter {
    waker: Option<Waker>,
    waiting: bool,
}

impl Waiter {
    /// The caller goes to sleep until [`Waiter::wake`].
    #[inline]
    pub(crate) fn wait(&mut self, cx: &Context<'_>) {
        match &self.waker {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            _ => self.waker = Some(cx.waker().clone()),
        }
        self.waiting = true;
    }

    /// Wakes the waiting task, if one waits.
    #[inline]
    pub(crate) fn wake(&mut self) {
        if self.waiting {
            self.waiting = false;
            if let Some(waker) = &self.waker {
                contain(|| waker.wake_by_ref());
            }
        }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// Takes the waker, if a task waits.
    pub(crate) fn take(&mut self) -> Option<Waker> {
        if std::mem::take(&mut self.waiting) { self.waker.take() } else { None }
    }

    /// Forgets the task.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The waiting task of an object on its way between two drivers. A drop wakes the task, because no
/// driver gets the object any more.
#[derive(Default)]
pub(crate) struct CarriedWaiter(Waiter);

impl CarriedWaiter {
    /// The waiter, for the driver that takes the object.
    pub(crate) fn unpack(&mut self) -> Waiter {
        std::mem::take(&mut self.0)
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.0.is_waiting()
    }

    /// Takes the waker, if a task waits.
    pub(crate) fn take(&mut self) -> Option<Waker> {
        self.0.take()
    }
}

impl From<Waiter> for CarriedWaiter {
    fn from(waiter: Waiter) -> Self {
        Self(waiter)
    }
}

impl Drop for CarriedWaiter {
    fn drop(&mut self) {
        self.0.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    struct WaiterCount(AtomicUsize);

    impl Wake for WaiterCount {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn wakes_once_per_wait_and_keeps_the_waker() {
        let count = Arc::new(WaiterCount(AtomicUsize::new(0)));
        let waker = Waker::from(count.clone());
        let cx = Context::from_waker(&waker);
        let mut waiter = Waiter::default();
        waiter.wake();
        waiter.wait(&cx);
        let references = Arc::strong_count(&count);
        waiter.wake();
        waiter.wake();
        waiter.wait(&cx);
        waiter.wake();
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
        assert_eq!(Arc::strong_count(&count), references, "the waker was cloned again");
    }
}
