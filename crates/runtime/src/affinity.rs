//! Where a color may live, or which handler the color follows, and the bound of a bounded color.
//!
//! Leaves out the scheduler's other state of a color (`color_meta.rs`) and the making of bounded
//! and concurrent colors (`bounded.rs`). Tested in `tests/capacity.rs` and `tests/concurrent.rs`.

use crate::capacity_waiters::{Capacity, CapacityWaiters};
use std::{
    sync::{Arc, Mutex},
    task::Waker,
};
use vermeil_sched::{Leader, Placement};

/// Where a color may live, or which handler the color follows.
#[derive(Clone)]
pub(crate) enum Affinity {
    Placed(Placement),
    FollowsHandler(Leader),
    /// As its bound says. Few colors are bounded or concurrent.
    Bounded(Arc<Bounded>),
}

impl Affinity {
    /// The placement or the leader, also within a bound.
    #[inline]
    pub(crate) fn inner(&self) -> &Self {
        if let Self::Bounded(bounded) = self { &bounded.affinity } else { self }
    }
}

impl Default for Affinity {
    fn default() -> Self {
        Self::Placed(Placement::Any)
    }
}

/// A bounded or concurrent color.
pub(crate) struct Bounded {
    /// Where the color may live, or the colors of its events.
    pub(crate) affinity: Affinity,
    pub(crate) is_concurrent: bool,
    pub(crate) bound: Option<EventBound>,
}

/// The bound on events of a color.
pub(crate) struct EventBound {
    most: usize,
    state: Mutex<BoundState>,
}

#[derive(Default)]
pub(crate) struct BoundState {
    pub(crate) taken: usize,
    /// A poster waits only if all places are taken.
    pub(crate) waiters: CapacityWaiters,
}

impl BoundState {
    /// Takes a place, unless all are taken.
    fn take(&mut self, most: Option<usize>) -> bool {
        let enters = Some(self.taken) < most;
        self.taken += usize::from(enters);
        enters
    }
}

/// A place within a bound, given back when its event begins or is dropped.
pub(crate) struct BoundPermit(Arc<Bounded>);

impl Drop for BoundPermit {
    fn drop(&mut self) {
        let first = self.0.with(|state| {
            // The place passes to the first waiting poster.
            let first = state.waiters.admit();
            state.taken -= usize::from(first.is_none());
            first
        });
        first.into_iter().for_each(Waker::wake);
    }
}

impl Bounded {
    pub(crate) fn wrap(affinity: Affinity, is_concurrent: bool, most: Option<usize>) -> Affinity {
        let bound = most.map(|most| EventBound { most: most.max(1), state: Mutex::default() });
        Affinity::Bounded(Arc::new(Self { affinity, is_concurrent, bound }))
    }

    /// The bound on events within the bound, if the bound counts events.
    pub(crate) fn bound(&self) -> Option<usize> {
        self.bound.as_ref().map(|bound| bound.most)
    }

    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut BoundState) -> R) -> R {
        let bound = self.bound.as_ref().expect("only a bounded color that counts has places");
        f(&mut bound.state.lock().expect("nothing panics under this lock"))
    }

    /// Takes a place within a bound that counts, unless all places are taken.
    pub(crate) fn take(self: &Arc<Self>) -> Option<BoundPermit> {
        let most = self.bound();
        self.with(|state| state.take(most)).then(|| BoundPermit(self.clone()))
    }

    /// The place that the poster has waited for.
    pub(crate) fn permit(self: &Arc<Self>) -> BoundPermit {
        BoundPermit(self.clone())
    }
}

impl Capacity for &Arc<Bounded> {
    fn enter(&self, waker: &Waker) -> Option<u64> {
        let most = self.bound();
        self.with(|state| (!state.take(most)).then(|| state.waiters.join(waker)))
    }

    fn waits(&self, ticket: u64, waker: &Waker) -> bool {
        let mut waker = waker.clone();
        self.with(|state| state.waiters.has(ticket, &mut waker))
    }

    fn give_up(&self, ticket: u64) {
        let left = self.with(|state| state.waiters.leave(ticket));
        if left.is_none() {
            drop(self.permit());
        }
    }
}
