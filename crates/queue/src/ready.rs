//! A core's ready queue: the tokens of the colors that have events, behind one lock.
//!
//! What stands behind the lock is the scheduler's: this file only shares it. Any thread pushes, the owning core pops, a
//! thief takes. A length kept beside the lock lets the owner skip it when nothing waits, and lets others judge without
//! touching it. Leaves out the order of the tokens and waking the core (`parking.rs`). Checked in `model/parking.rs` and
//! `model/handover.rs`.

use crate::sync::{AtomicUsize, Mutex, Ordering};

/// Something that cores share, of which they may ask the length without the lock.
pub struct ReadyQueue<R> {
    inside: Mutex<R>,
    measure: fn(&R) -> usize,
    /// Written under the lock, read anywhere.
    len: AtomicUsize,
}

impl<R> ReadyQueue<R> {
    /// Shares `inside`, whose length `measure` gives: above zero exactly when its owner would find something to do.
    pub fn new(inside: R, measure: fn(&R) -> usize) -> Self {
        let len = AtomicUsize::new(measure(&inside));
        Self { inside: Mutex::new(inside), measure, len }
    }

    /// Works on what is inside.
    pub fn with<T>(&self, f: impl FnOnce(&mut R) -> T) -> T {
        let mut inside = self.inside.lock().expect("nothing panics under this lock");
        let result = f(&mut inside);
        // Release pairs with the load in `len`; a parking core is covered by the fences in `parking.rs`.
        self.len.store((self.measure)(&inside), Ordering::Release);
        result
    }

    /// As [`with`](Self::with), unless another thread is inside: thieves do not queue up.
    pub fn try_with<T>(&self, f: impl FnOnce(&mut R) -> T) -> Option<T> {
        let mut inside = self.inside.try_lock().ok()?;
        let result = f(&mut inside);
        self.len.store((self.measure)(&inside), Ordering::Release);
        Some(result)
    }

    /// The length; exact for whoever holds no race with a change, a hint otherwise.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Whether nothing waits; as exact as [`ReadyQueue::len`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
