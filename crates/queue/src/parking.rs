//! The parking word of a core: how it goes to sleep without losing a wake-up.
//!
//! The race: a producer queues a token and looks whether the core sleeps, while the core looks whether a token waits
//! and goes to sleep. Both sides put a sequentially consistent fence between their store and their load, so at least
//! one of them sees the other: the producer wakes the core, or the core finds the token. Explicit fences rather than
//! sequentially consistent accesses, because the model checker treats only the former exactly.
//!
//! Whoever wakes a core leaves the time of its call in the word, so that the core can tell what waking it takes. Leaves out the
//! sleep itself (the driver's wait) and the wake-up (its eventfd). Checked in `model/parking.rs`.

use crate::{
    canary::{Bug, planted},
    sync::{AtomicU64, Ordering, fence},
};

const AWAKE: u64 = 0;
const ASLEEP: u64 = 1;
/// At least this: called, at the time that it is.
const CALLED: u64 = 2;

/// Whether a core sleeps; one word, written by the core and by those who wake it.
pub struct Parking {
    state: AtomicU64,
}

/// Proof that a core has announced its sleep; it must look for work once more before it blocks.
#[must_use = "end the announced sleep with `Parking::awake`"]
pub struct Sleep(());

impl Default for Parking {
    fn default() -> Self {
        Self { state: AtomicU64::new(AWAKE) }
    }
}

impl Parking {
    /// The core announces that it will sleep. It must then look for work again, block only if there is none, and call
    /// [`Parking::awake`] in either case.
    pub fn announce(&self) -> Sleep {
        self.state.store(ASLEEP, Ordering::Relaxed);
        if !planted(Bug::AnnounceWithoutFence) {
            // Pairs with the fence in `must_wake`.
            fence(Ordering::SeqCst);
        }
        Sleep(())
    }

    /// The core is awake again; gives when it was called, if it was.
    pub fn awake(&self, sleep: Sleep) -> Option<u64> {
        let Sleep(()) = sleep;
        let called = self.state.swap(AWAKE, Ordering::Relaxed);
        (called >= CALLED).then_some(called)
    }

    /// To be asked by whoever has just queued work for the core: `true` for the one caller that must wake it, and leaves
    /// there what its clock `now` says, which is asked only if the core sleeps.
    pub fn must_wake(&self, now: impl FnOnce() -> u64) -> bool {
        if !planted(Bug::WakeWithoutFence) {
            // Pairs with the fence in `announce`.
            fence(Ordering::SeqCst);
        }
        self.state.load(Ordering::Relaxed) == ASLEEP && {
            let called = now().max(CALLED);
            self.state.compare_exchange(ASLEEP, called, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        }
    }

    /// Whether the core sleeps; a hint.
    pub fn is_asleep(&self) -> bool {
        self.state.load(Ordering::Relaxed) != AWAKE
    }
}
