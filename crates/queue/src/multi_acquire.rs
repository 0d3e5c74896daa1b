//! Acquisition of several colors at once: the order of acquisitions, and the thread that continues
//! with all colors.
//!
//! Each color of an acquisition gets an event that [holds](crate::hold) the color. The thread of
//! the last arrival has all colors. A deadlock needs two acquisitions in different orders on two
//! colors. Each acquisition queues all events under one lock, so acquisitions have the same order
//! on every color (the two-phase queueing of Behaviour-Oriented Concurrency, Cheeseman et al.,
//! OOPSLA 2023).
//!
//! Leaves out the events, the link from a held color to an acquisition, and the core on which the
//! acquisition runs: the runtime's. Checked in `model/multi_acquire.rs` and `shuttle_tests.rs`.

use crate::{
    canary::{Bug, planted},
    sync::Mutex,
    token::{BatchRun, HeldColor, Token, run_together},
};
use std::{
    mem,
    sync::{Arc, PoisonError},
};

/// The lock that gives all acquisitions one order.
#[derive(Default)]
pub struct AcquireOrder(Mutex<()>);

/// Colors to be acquired together, and the action.
pub struct MultiAcquire<D: 'static, P> {
    colors: usize,
    acquired: Mutex<Acquired<D, P>>,
}

struct Acquired<D: 'static, P> {
    /// The colors that have arrived. Dropped with the last reference to the acquisition if an event
    /// of the acquisition is dropped at the end of a runtime.
    held: Vec<HeldColor<D>>,
    /// Taken by the thread of the last arrival.
    action: Option<P>,
}

/// All colors of an acquisition, which stand still until they are released.
#[must_use = "colors that are dropped drop their events"]
pub struct AcquiredColors<D: 'static = ()>(Vec<HeldColor<D>>);

impl AcquireOrder {
    /// Acquires several colors: `post` queues on each of these different colors an event that holds
    /// the color for the acquisition.
    pub fn acquire_all<C, D: 'static, P>(
        &self,
        colors: impl ExactSizeIterator<Item = C>,
        action: P,
        mut post: impl FnMut(C, Arc<MultiAcquire<D, P>>),
    ) {
        let acquired = Acquired { held: Vec::with_capacity(colors.len()), action: Some(action) };
        let acquisition = Arc::new(MultiAcquire { colors: colors.len(), acquired: Mutex::new(acquired) });
        // Poison is ignored, because the lock guards no data that a panic could leave half done.
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _one_order = (!planted(Bug::AcquireWithoutOrder)).then(lock);
        for color in colors {
            post(color, acquisition.clone());
        }
    }
}

impl<D: 'static, P> MultiAcquire<D, P> {
    /// A color arrives: the acquisition's event has run and holds the color. The last arrival gets
    /// all colors and the action.
    pub fn acquired(&self, held: HeldColor<D>) -> Option<(AcquiredColors<D>, P)> {
        let lock = || self.acquired.lock().expect("nothing panics under this lock");
        let counted_early = planted(Bug::CountBeforeAcquired).then(|| lock().held.len() + 1);
        let mut acquired = lock();
        acquired.held.push(held);
        if counted_early.unwrap_or(acquired.held.len()) < self.colors {
            return None;
        }
        let action = acquired.action.take().expect("a color comes once");
        Some((AcquiredColors(mem::take(&mut acquired.held)), action))
    }
}

impl<D> AcquiredColors<D> {
    /// The colors.
    pub fn held(&self) -> &[HeldColor<D>] {
        &self.0
    }

    /// Runs `body` on all colors. Returns whether `body` panicked.
    pub fn run(&self, body: impl FnOnce()) -> bool {
        run_together(&self.0, body)
    }

    /// Lets the colors go on: `queue` gets the token of each color that has more events.
    pub fn release(self, mut queue: impl FnMut(Token<D>)) {
        for held in self.0 {
            if let BatchRun::Again(token) = held.release() {
                queue(token);
            }
        }
    }
}
