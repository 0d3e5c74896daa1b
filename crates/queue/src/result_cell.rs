//! A result cell (a oneshot): a task's result for the receiver that asks for the result.
//!
//! A thread that has moved the state to `HELD` owns the cell for a few instructions, until that
//! thread stores the next state. So sending a value takes one locked operation, and receiving a
//! value that is there takes none. The receiver is a [`Join`]; each result cell has a single
//! `Join`. Leaves out the meaning of a value. The argument is in `result_cell.md`; checked in
//! `model/result_cell.rs` (nothing lost, no receiver waits for ever) and `tests.rs` (drops).
#![allow(unsafe_code)]

use crate::{
    canary::{Bug, planted},
    sync::{AtomicBool, AtomicU32, Ordering, UnsafeCell, pause},
};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Poll, Waker},
};

/// The cell is empty, and no receiver waits.
const OPEN: u32 = 0;
/// A thread owns the cell.
const HELD: u32 = 1;
/// No value yet; the cell has the waker of the waiting receiver.
const WAITED: u32 = 2;
/// No value yet, and the receiver is gone.
const LEFT: u32 = 3;
/// The cell has the value.
const DONE: u32 = 4;
/// The value was received or dropped.
const GONE: u32 = 5;

/// A cell for a value that is sent once.
pub(crate) struct ResultCell<T> {
    state: AtomicU32,
    cell: UnsafeCell<ResultState<T>>,
}

enum ResultState<T> {
    Nothing,
    Waker(Waker),
    Value(T),
}

// SAFETY: the thread that has moved the state to `HELD` accesses the cell, and in `DONE` the single
// `Join` does; never two threads at once. The contents go from thread to thread.
unsafe impl<T: Send> Send for ResultCell<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for ResultCell<T> {}

impl<T> ResultCell<T> {
    // Inlined, because otherwise the compiler copies the cell to its destination.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { state: AtomicU32::new(OPEN), cell: UnsafeCell::new(ResultState::Nothing) }
    }

    /// Takes the cell, unless a value was sent before the cell is free. Returns the former state.
    #[inline]
    fn lock(&self) -> Result<u32, u32> {
        // Acquire, here and below, pairs with the Release of the cell's previous owner.
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

    /// Exchanges the contents of the cell for `other`.
    ///
    /// # Safety
    /// The caller owns the cell: the caller has moved the state to `HELD`, or is the `Join` and has
    /// seen `DONE`.
    #[inline]
    unsafe fn put(&self, other: ResultState<T>) -> ResultState<T> {
        // SAFETY: the caller guarantees that no other thread accesses the cell.
        self.cell.with_mut(|cell| std::mem::replace(unsafe { &mut *cell }, other))
    }

    #[inline]
    fn release(&self, state: u32) {
        self.state
            .store(state, if planted(Bug::RelaxedResult) { Ordering::Relaxed } else { Ordering::Release });
    }

    /// Sends `value`, if no value was sent before, and wakes the waiting receiver.
    #[inline]
    pub(crate) fn complete(&self, value: T) {
        match self.lock() {
            Ok(LEFT) => self.release(GONE),
            Ok(_) => {
                // SAFETY: we hold the cell.
                let before = unsafe { self.put(ResultState::Value(value)) };
                self.release(DONE);
                if let ResultState::Waker(waker) = before {
                    waker.wake();
                }
            }
            Err(_) => {}
        }
    }

    /// Takes the value, or registers `waker` for the time when the value is there. For the single
    /// `Join`.
    #[inline]
    fn ask(&self, waker: &Waker) -> Poll<T> {
        if self.state.load(Ordering::Acquire) == DONE {
            return Poll::Ready(self.take());
        }
        let waker = ResultState::Waker(waker.clone());
        match self.lock() {
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

    /// Takes the value, by the single `Join`, which has seen `DONE`.
    #[inline]
    fn take(&self) -> T {
        // SAFETY: in this state the `Join` owns the cell.
        let ResultState::Value(value) = (unsafe { self.put(ResultState::Nothing) }) else {
            unreachable!("it was left there")
        };
        self.release(GONE);
        value
    }

    /// The receiver leaves: drops the value, now or on arrival. By the single `Join`.
    #[inline]
    fn abandon(&self) {
        match self.lock() {
            Ok(_) => {
                // SAFETY: we hold the cell.
                let before = unsafe { self.put(ResultState::Nothing) };
                self.release(LEFT);
                drop(before);
            }
            Err(DONE) => drop(self.take()),
            Err(_) => {}
        }
    }
}

/// An object with a result cell.
pub(crate) trait Oneshot<T>: Send + Sync {
    fn result_cell(&self) -> &ResultCell<T>;

    /// Asks the sender to end soon, if the sender can.
    fn cancel(self: Pin<Arc<Self>>) {}

    /// Runs the sender once more, if the sender still runs.
    fn wake(self: Pin<Arc<Self>>) {}
}

/// The receiver of a result cell; each result cell has a single receiver.
pub struct Join<T>(Pin<Arc<dyn Oneshot<T>>>);

impl<T> Join<T> {
    /// Called once, by the maker of the result cell.
    pub(crate) fn new(joined: Pin<Arc<dyn Oneshot<T>>>) -> Self {
        Self(joined)
    }

    /// Takes the value, or registers `waker` in place of the last waker.
    ///
    /// # Panics
    /// When the value was taken before.
    #[inline]
    pub fn poll(&mut self, waker: &Waker) -> Poll<T> {
        self.0.result_cell().ask(waker)
    }

    /// Asks the sender to end soon, if the sender can.
    pub fn cancel(&self) {
        self.0.clone().cancel();
    }

    /// Runs the sender once more, if the sender still runs.
    pub fn wake(&self) {
        self.0.clone().wake();
    }
}

impl<T> Drop for Join<T> {
    /// Drops the value with the receiver, however long the sender's memory lives.
    #[inline]
    fn drop(&mut self) {
        self.0.result_cell().abandon();
    }
}

/// The sender of a value that is no task: only a result cell.
pub struct Promise<T>(Pin<Arc<OneshotCell<T>>>);

struct OneshotCell<T> {
    result: ResultCell<T>,
    /// The receiver has asked the sender to end. A hint, which orders nothing.
    is_cancelled: AtomicBool,
}

impl<T: Send> Oneshot<T> for OneshotCell<T> {
    fn result_cell(&self) -> &ResultCell<T> {
        &self.result
    }

    fn cancel(self: Pin<Arc<Self>>) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }
}

impl<T: Send + 'static> Promise<T> {
    /// A promise and the receiver of the promised value.
    pub fn new() -> (Self, Join<T>) {
        let alone = Arc::pin(OneshotCell { result: ResultCell::new(), is_cancelled: AtomicBool::new(false) });
        (Self(alone.clone()), Join::new(alone))
    }

    /// Sends `value`, if no value was sent before, and wakes the waiting receiver.
    pub fn complete(&self, value: T) {
        self.0.result.complete(value);
    }

    /// Whether the receiver has asked the sender to end ([`Join::cancel`]). The sender decides
    /// whether to end.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Relaxed)
    }
}
