//! The parking word of a core: how the core goes to sleep without losing a wake-up.
//!
//! The race: a producer queues a token and checks whether the core sleeps, while the core checks
//! for a token and goes to sleep. Both sides put a sequentially consistent fence between their
//! store and their load, so at least one side sees the other: the producer wakes the core, or the
//! core finds the token. Explicit fences are used instead of sequentially consistent accesses,
//! because the model checker treats only fences exactly.
//!
//! A producer that wakes a core leaves the time of the call in the word, so that the core can
//! measure the wake-up latency. Leaves out the sleep (the driver's wait) and the wake-up (the
//! driver's eventfd). Checked in `model/parking.rs`.

use crate::{
    canary::{Bug, planted},
    sync::{AtomicU64, Ordering, fence},
};

const AWAKE: u64 = 0;
const ASLEEP: u64 = 1;
/// Any value from here on: called, at that time.
const CALLED: u64 = 2;

/// Whether a core sleeps: one word, written by the core and by producers that wake the core.
pub struct Parking {
    state: AtomicU64,
}

/// Proof that a core has announced its sleep. The core must look for work once more before
/// blocking.
#[must_use = "end the announced sleep with `Parking::awake`"]
pub struct AnnouncedSleep(());

impl Default for Parking {
    fn default() -> Self {
        Self { state: AtomicU64::new(AWAKE) }
    }
}

impl Parking {
    /// The core announces that it will sleep. The core must then look for work again, block only if
    /// there is none, and call [`Parking::awake`] in either case.
    pub fn announce(&self) -> AnnouncedSleep {
        self.state.store(ASLEEP, Ordering::Relaxed);
        if !planted(Bug::AnnounceWithoutFence) {
            // Pairs with the fence in `must_wake`.
            fence(Ordering::SeqCst);
        }
        AnnouncedSleep(())
    }

    /// The core is awake again. Returns the time of the call, if the core was called.
    pub fn awake(&self, sleep: AnnouncedSleep) -> Option<u64> {
        let AnnouncedSleep(()) = sleep;
        let called = self.state.swap(AWAKE, Ordering::Relaxed);
        (called >= CALLED).then_some(called)
    }

    /// Asked by a producer that has just queued work for the core: `true` for the single producer
    /// that must wake the core. Stores the time `now` of that producer's clock, which is read only
    /// if the core sleeps.
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

    /// Asked by a thread that has just changed a word, which the core reads after the announcement
    /// of each sleep: whether the core may sleep without knowledge of the change. Then the thread
    /// must wake the core.
    pub fn may_miss_change(&self) -> bool {
        if !planted(Bug::WakeWithoutFence) {
            // Pairs with the fence in `announce`.
            fence(Ordering::SeqCst);
        }
        self.is_asleep()
    }

    /// Whether the core sleeps; a hint.
    pub fn is_asleep(&self) -> bool {
        self.state.load(Ordering::Relaxed) != AWAKE
    }
}
