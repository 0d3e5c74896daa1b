//! The bound of a color: how many events the color takes, and whether each event gets a new color.
//!
//! Most colors have no door; a poster sees that where it reads the color's seat. A *bounded* color
//! takes a limited number of events that have not begun; waiting posters enter in order
//! (`capacity.rs`). A *free* color stands for "no exclusion" in place of a real color and never
//! runs itself. Tested in `tests/concurrent.rs` and `tests/capacity.rs`.

use crate::{
    Color,
    capacity::{Capacity, CapacityWaiters},
    color::{Affinity, ColorMeta},
    handle::Handle,
    spec::Place,
};
use std::{
    sync::{Arc, Mutex},
    task::Waker,
};

/// A bounded or concurrent color.
pub(crate) struct Bounded {
    /// Where the color may live, or the colors of its events.
    pub(crate) affinity: Affinity,
    is_concurrent: bool,
    bound: Option<EventBound>,
}

/// The bound on events of a color.
struct EventBound {
    most: usize,
    state: Mutex<BoundState>,
}

#[derive(Default)]
struct BoundState {
    taken: usize,
    /// A poster waits only if all places are taken.
    waiters: CapacityWaiters,
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
    fn wrap(affinity: Affinity, is_concurrent: bool, most: Option<usize>) -> Affinity {
        let bound = most.map(|most| EventBound { most: most.max(1), state: Mutex::default() });
        Affinity::Bounded(Arc::new(Self { affinity, is_concurrent, bound }))
    }

    /// The bound on events within the bound, if the bound counts events.
    pub(crate) fn bound(&self) -> Option<usize> {
        self.bound.as_ref().map(|bound| bound.most)
    }

    fn with<R>(&self, f: impl FnOnce(&mut BoundState) -> R) -> R {
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

impl Handle {
    /// A concurrent color, on which no events exclude each other: every event or task that is
    /// posted, spawned or hops there gets a new color. For code that takes a color and should run
    /// in parallel.
    ///
    /// No state can belong to a concurrent color, because nothing ever runs on the color itself.
    pub fn concurrent_color(&self) -> Color {
        self.concurrent_color_at(&Place::Any)
    }

    /// A concurrent color; each of its events lives where `place` says.
    ///
    /// # Panics
    /// As [`color_at`](Self::color_at).
    pub fn concurrent_color_at(&self, place: &Place) -> Color {
        self.new_color(Bounded::wrap(self.affinity(place), true, None))
    }
}

impl Color {
    /// Bounds the posted events of the color that have not begun, at least 1. Beyond the bound
    /// [`Handler::post`](crate::Handler::post) returns the event, and
    /// [`post_when_room`](crate::Handler::post_when_room) waits. Neither tasks nor acquisitions
    /// ([`Handle::when`]) count. For a [concurrent](Handle::concurrent_color) color, the events on
    /// all of its events' colors count together.
    ///
    /// ```
    /// # let runtime = vermeil::Runtime::builder().build()?;
    /// # let handle = runtime.handle();
    /// let account = handle.color().bounded(64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the color was shared or used before.
    pub fn bounded(mut self, events: usize) -> Self {
        let is_concurrent = self.is_concurrent();
        let queue = Arc::get_mut(&mut self.queue).expect("a color is bounded before it is shared or used");
        queue
            .meta_mut()
            .set_affinity(|affinity| Bounded::wrap(affinity.inner().clone(), is_concurrent, Some(events)));
        self
    }

    /// Whether every event that is posted there runs in parallel to all other events
    /// ([`Handle::concurrent_color`]).
    pub fn is_concurrent(&self) -> bool {
        self.affinity_if_concurrent().is_some()
    }

    /// The color for another event or task: this color, or a new color if this color is concurrent.
    pub(crate) fn for_one(&self) -> Self {
        self.for_one_if_concurrent().unwrap_or_else(|| self.clone())
    }

    /// A new color for an event or task, if this color is concurrent.
    pub(crate) fn for_one_if_concurrent(&self) -> Option<Self> {
        let affinity = self.affinity_if_concurrent()?;
        let core = self.shared.place(affinity);
        Some(Self::new(core, ColorMeta::new(affinity.clone()), self.shared.clone()))
    }

    /// Where events posted here may live, if the color is concurrent.
    pub(crate) fn affinity_if_concurrent(&self) -> Option<&Affinity> {
        self.queue.meta.bounded().filter(|bounded| bounded.is_concurrent).map(|bounded| &bounded.affinity)
    }

    /// The door of a bounded color.
    pub(crate) fn bounded_with_limit(&self) -> Option<&Arc<Bounded>> {
        self.queue.meta.bounded().filter(|bounded| bounded.bound.is_some())
    }
}

#[cfg(test)]
impl Color {
    /// Number of taken places, and number of waiting posters.
    pub(crate) fn waiters(&self) -> (usize, usize) {
        self.bounded_with_limit().expect("a bounded color").with(|state| (state.taken, state.waiters.len()))
    }
}
