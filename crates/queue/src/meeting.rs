//! Acquisition of several colors at once: the order of acquisitions, and the thread that continues
//! with all colors.
//!
//! Each color of a meeting gets an event that [holds](crate::hold) the color. The thread of the
//! last arrival has all colors. A deadlock needs two meetings in different orders on two colors.
//! Each meeting queues all events under one lock, so meetings have the same order on every color
//! (the two-phase queueing of Behaviour-Oriented Concurrency, Cheeseman et al., OOPSLA 2023).
//!
//! Leaves out the events, the link from a held color to a meeting, and the core on which the
//! meeting runs: the runtime's. Checked in `model/meeting.rs` and `throng.rs`.

use crate::{
    canary::{Bug, planted},
    sync::Mutex,
    token::{Activation, Held, Token, run_together},
};
use std::{
    mem,
    sync::{Arc, PoisonError},
};

/// The lock that gives all meetings one order.
#[derive(Default)]
pub struct Meetings(Mutex<()>);

/// Colors to be acquired together, and the purpose.
pub struct Meeting<D: 'static, P> {
    colors: usize,
    come: Mutex<Come<D, P>>,
}

struct Come<D: 'static, P> {
    held: Vec<Held<D>>,
    /// Taken by the thread of the last arrival.
    purpose: Option<P>,
}

/// All colors of a meeting, which stand still until they are released.
#[must_use = "colors that are dropped stand still for ever"]
pub struct Together<D: 'static = ()>(Vec<Held<D>>);

impl Meetings {
    /// Calls a meeting: `post` queues on each of these different colors an event that holds the
    /// color for the meeting.
    pub fn call<C, D: 'static, P>(
        &self,
        colors: impl ExactSizeIterator<Item = C>,
        purpose: P,
        mut post: impl FnMut(C, Arc<Meeting<D, P>>),
    ) {
        let come = Come { held: Vec::with_capacity(colors.len()), purpose: Some(purpose) };
        let meeting = Arc::new(Meeting { colors: colors.len(), come: Mutex::new(come) });
        // Poison is ignored, because the lock guards no data that a panic could leave half done.
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _one_order = (!planted(Bug::MeetingsWithoutOrder)).then(lock);
        for color in colors {
            post(color, meeting.clone());
        }
    }
}

impl<D: 'static, P> Meeting<D, P> {
    /// A color arrives: the meeting's event has run and holds the color. The last arrival gets all
    /// colors and the purpose.
    pub fn arrive(&self, held: Held<D>) -> Option<(Together<D>, P)> {
        let lock = || self.come.lock().expect("nothing panics under this lock");
        let counted_early = planted(Bug::CountBeforeArrival).then(|| lock().held.len() + 1);
        let mut come = lock();
        come.held.push(held);
        if counted_early.unwrap_or(come.held.len()) < self.colors {
            return None;
        }
        let purpose = come.purpose.take().expect("a color comes once");
        Some((Together(mem::take(&mut come.held)), purpose))
    }
}

impl<D> Together<D> {
    /// The colors.
    pub fn held(&self) -> &[Held<D>] {
        &self.0
    }

    /// Runs `body` on all colors. Returns whether `body` panicked.
    pub fn run(&self, body: impl FnOnce()) -> bool {
        run_together(&self.0, body)
    }

    /// Lets the colors go on: `queue` gets the token of each color that has more events.
    pub fn release(self, mut queue: impl FnMut(Token<D>)) {
        for held in self.0 {
            if let Activation::Again(token) = held.release() {
                queue(token);
            }
        }
    }
}
