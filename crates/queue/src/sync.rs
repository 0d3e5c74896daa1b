//! The only file that selects the atomics: std's, loom's under `--cfg loom`, or shuttle's under
//! `--cfg shuttle`.
//!
//! Every other file of this crate imports the primitives from here, so the model checkers run the
//! production files and not copies.

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

/// Spins after which a thread that waits for a few instructions of another thread yields, because
/// the other thread may be preempted. The spins take 0.2 us to 3 us, about as long as the switch to
/// another thread, so the wait costs at most about twice the better of spinning and yielding.
#[cfg(not(any(loom, shuttle)))]
const TRIES: u32 = 64;

/// Waits a moment for another thread, for the `tries + 1`st time.
#[cfg(not(any(loom, shuttle)))]
#[cold]
pub(crate) fn pause(tries: u32) {
    if tries < TRIES { std::hint::spin_loop() } else { std::thread::yield_now() }
}

#[cfg(loom)]
pub(crate) fn pause(_: u32) {
    loom::thread::yield_now();
}

#[cfg(shuttle)]
pub(crate) fn pause(_: u32) {
    shuttle::thread::yield_now();
}

#[cfg(not(loom))]
pub(crate) use cell::UnsafeCell;

#[cfg(not(loom))]
mod cell {
    /// std's cell with loom's interface, so that loom can watch each access.
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }

        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner()
        }
    }
}

/// Runs `f`. Returns whether `f` panicked. Under a checker, a panic is the checker's verdict and
/// passes through.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn panics(f: impl FnOnce()) -> bool {
    let Err(payload) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)) else { return false };
    // The destructor of a panic payload may panic too. The second payload is leaked.
    if let Err(second) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
    true
}

#[cfg(any(loom, shuttle))]
pub(crate) fn panics(f: impl FnOnce()) -> bool {
    f();
    false
}
