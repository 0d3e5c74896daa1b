//! A core's ready queue: the tokens of the colors that have events, behind one lock.
//!
//! The scheduler defines the contents behind the lock; this file only shares the contents. Any
//! thread pushes, the owning core pops, a thief takes. Because of a length beside the lock, the
//! owner skips the lock when nothing waits, and other threads judge the queue without touching the
//! lock. Leaves out the order of the tokens and waking the core (`parking.rs`). Checked in
//! `model/parking.rs` and `model/migration.rs`.

use crate::sync::{AtomicUsize, Mutex, Ordering};

/// An object that cores share behind a lock, with a length that is readable without the lock.
pub struct ReadyQueue<R> {
    inside: Mutex<R>,
    measure: fn(&R) -> usize,
    /// Written under the lock, read anywhere.
    len: AtomicUsize,
}

impl<R> ReadyQueue<R> {
    /// Shares `inside`. `measure` gives the length: above zero exactly when the owner would find a
    /// runnable token.
    pub fn new(inside: R, measure: fn(&R) -> usize) -> Self {
        let len = AtomicUsize::new(measure(&inside));
        Self { inside: Mutex::new(inside), measure, len }
    }

    /// Gives `f` access to the contents.
    pub fn with<T>(&self, f: impl FnOnce(&mut R) -> T) -> T {
        let mut inside = self.inside.lock().expect("nothing panics under this lock");
        let result = f(&mut inside);
        // Release pairs with the load in `len`; the fences in `parking.rs` cover a parking core.
        self.len.store((self.measure)(&inside), Ordering::Release);
        result
    }

    /// As [`with`](Self::with), unless another thread has the lock, because thieves do not wait.
    pub fn try_with<T>(&self, f: impl FnOnce(&mut R) -> T) -> Option<T> {
        let mut inside = self.inside.try_lock().ok()?;
        let result = f(&mut inside);
        self.len.store((self.measure)(&inside), Ordering::Release);
        Some(result)
    }

    /// The length: exact if no change is under way, a hint otherwise.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Whether the length is zero; as exact as [`ReadyQueue::len`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
