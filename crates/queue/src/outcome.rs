//! What one leaves for another who asks for it: a task's result.
//!
//! Whoever has moved the state to `HELD` has the cell until it says how it goes on, which takes a few instructions: so leaving a
//! value takes one operation that locks the line, and asking for one that is there none. The side that asks is a [`Join`], of which
//! there is one for each outcome. Leaves out what a value says. The argument stands in `outcome.md`; checked in
//! `model/outcome.rs` (nothing lost, nobody waits for ever) and `tests.rs` (drops).
#![allow(unsafe_code)]

use crate::{
    canary::{Bug, planted},
    sync::{AtomicU32, Ordering, UnsafeCell, pause},
};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Poll, Waker},
};

/// Nothing is there yet, and nobody waits.
const OPEN: u32 = 0;
/// Somebody is at the cell.
const HELD: u32 = 1;
/// Nothing is there yet; the cell has the waker of who waits.
const WAITED: u32 = 2;
/// Nothing is there yet, and nobody will ask.
const LEFT: u32 = 3;
/// The cell has the value, for who asks.
const DONE: u32 = 4;
/// It was handed on or dropped.
const GONE: u32 = 5;

/// A place for a value, which is left there once.
pub(crate) struct Outcome<T> {
    state: AtomicU32,
    cell: UnsafeCell<Cell<T>>,
}

enum Cell<T> {
    Nothing,
    Waker(Waker),
    Value(T),
}

// SAFETY: the cell is touched by whoever has moved the state to `HELD`, and in `DONE` by the one `Join`: never by two at once. What
// is in it goes from thread to thread.
unsafe impl<T: Send> Send for Outcome<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Outcome<T> {}

impl<T> Outcome<T> {
    // Inlined, or what is made here is copied to where it will stand.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { state: AtomicU32::new(OPEN), cell: UnsafeCell::new(Cell::Nothing) }
    }

    /// Takes the cell, unless a value was left, or is before the cell is had; gives the state as it was.
    #[inline]
    fn hold(&self) -> Result<u32, u32> {
        // Acquire, here and below, pairs with the Release of who was at the cell before.
        let (mut before, mut tries) = (self.state.load(Ordering::Acquire), 0);
        loop {
            if matches!(before, DONE | GONE) {
                return Err(before);
            }
            if before == HELD {
                pause(tries);
                tries += 1;
                before = self.state.load(Ordering::Acquire);
                continue;
            }
            match self.state.compare_exchange_weak(before, HELD, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Ok(before),
                Err(changed) => before = changed,
            }
        }
    }

    /// What is in the cell, for `other`.
    ///
    /// # Safety
    /// The caller has the cell: it has moved the state to `HELD`, or is the `Join` and has seen `DONE`.
    #[inline]
    unsafe fn put(&self, other: Cell<T>) -> Cell<T> {
        // SAFETY: as the caller says, nobody else is there.
        self.cell.with_mut(|cell| std::mem::replace(unsafe { &mut *cell }, other))
    }

    #[inline]
    fn release(&self, state: u32) {
        self.state
            .store(state, if planted(Bug::RelaxedOutcome) { Ordering::Relaxed } else { Ordering::Release });
    }

    /// Leaves `value`, if nothing was left before, and wakes who waits.
    #[inline]
    pub(crate) fn complete(&self, value: T) {
        match self.hold() {
            Ok(LEFT) => self.release(GONE),
            Ok(_) => {
                // SAFETY: we hold the cell.
                let before = unsafe { self.put(Cell::Value(value)) };
                self.release(DONE);
                if let Cell::Waker(waker) = before {
                    waker.wake();
                }
            }
            Err(_) => {}
        }
    }

    /// Takes the value, or has `waker` woken when there is one. For the one `Join`.
    #[inline]
    fn ask(&self, waker: &Waker) -> Poll<T> {
        if self.state.load(Ordering::Acquire) == DONE {
            return Poll::Ready(self.take());
        }
        let waker = Cell::Waker(waker.clone());
        match self.hold() {
            Ok(_) => {
                // SAFETY: we hold the cell.
                let before = unsafe { self.put(waker) };
                self.release(WAITED);
                drop(before);
                Poll::Pending
            }
            Err(DONE) => Poll::Ready(self.take()),
            Err(_) => panic!("the result has been handed on: nobody asks for it twice"),
        }
    }

    /// The value, by the one `Join`, which has seen `DONE`.
    #[inline]
    fn take(&self) -> T {
        // SAFETY: in this state the cell is the `Join`'s.
        let Cell::Value(value) = (unsafe { self.put(Cell::Nothing) }) else {
            unreachable!("it was left there")
        };
        self.release(GONE);
        value
    }

    /// Nobody will ask: drops what is there, or will be. By the one `Join`.
    #[inline]
    fn leave(&self) {
        match self.hold() {
            Ok(_) => {
                // SAFETY: we hold the cell.
                let before = unsafe { self.put(Cell::Nothing) };
                self.release(LEFT);
                drop(before);
            }
            Err(DONE) => drop(self.take()),
            Err(_) => {}
        }
    }
}

/// Something with an outcome.
pub(crate) trait Joined<T>: Send + Sync {
    fn outcome(&self) -> &Outcome<T>;

    /// Has it end soon, if it can.
    fn cancel(self: Pin<Arc<Self>>) {}

    /// Has it run once more, if it runs.
    fn wake(self: Pin<Arc<Self>>) {}
}

/// The side that asks for what is left: there is one for each outcome.
pub struct Join<T>(Pin<Arc<dyn Joined<T>>>);

impl<T> Join<T> {
    /// For whoever has made the outcome, once.
    pub(crate) fn new(joined: Pin<Arc<dyn Joined<T>>>) -> Self {
        Self(joined)
    }

    /// Takes what was left, or has `waker` woken when that is there, in place of the one that was given last.
    ///
    /// # Panics
    /// When it was taken before.
    #[inline]
    pub fn poll(&mut self, waker: &Waker) -> Poll<T> {
        self.0.outcome().ask(waker)
    }

    /// Has what leaves the value end soon, if it can.
    pub fn cancel(&self) {
        self.0.clone().cancel();
    }

    /// Has it run once more, if it runs.
    pub fn wake(&self) {
        self.0.clone().wake();
    }
}

impl<T> Drop for Join<T> {
    /// What is there goes with the last who could have asked for it, however long the other side's memory is kept.
    #[inline]
    fn drop(&mut self) {
        self.0.outcome().leave();
    }
}

/// The side that leaves a value, where that is nothing but a place for it.
pub struct Promise<T>(Pin<Arc<Alone<T>>>);

struct Alone<T>(Outcome<T>);

impl<T: Send> Joined<T> for Alone<T> {
    fn outcome(&self) -> &Outcome<T> {
        &self.0
    }
}

impl<T: Send + 'static> Promise<T> {
    /// A promise and who asks for what it comes to.
    pub fn new() -> (Self, Join<T>) {
        let alone = Arc::pin(Alone(Outcome::new()));
        (Self(alone.clone()), Join::new(alone))
    }

    /// Leaves `value`, if nothing was left before, and wakes who waits.
    pub fn complete(&self, value: T) {
        self.0.0.complete(value);
    }
}
