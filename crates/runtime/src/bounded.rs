//! Makes bounded and concurrent colors, and gives each event of a concurrent color its own color.
//!
//! Most colors have no bound; a poster reads that from the color's affinity (`affinity.rs`). A
//! *bounded* color takes a limited number of events that have not begun. Waiting posters enter in
//! order, because a fair semaphore counts the events. A *concurrent* color stands for "no
//! exclusion" in place of a real color and never runs itself. Tested in `tests/concurrent.rs` and
//! `tests/capacity.rs`.

use crate::{
    Color,
    affinity::{Affinity, Bounded, EventBound},
    color_meta::ColorMeta,
    handle::Handle,
    spec::Place,
};
use std::sync::Arc;
use vermeil_sched::{CoreIndex, HandlerIndex};

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
        let (core, meta) = self.place_if_concurrent(HandlerIndex(0))?;
        Some(Self::new(core, meta, self.shared.clone()))
    }

    /// The core and the state of a new color for an event of `handler`, if this color is
    /// concurrent.
    pub(crate) fn place_if_concurrent(&self, handler: HandlerIndex) -> Option<(CoreIndex, ColorMeta)> {
        let affinity = self.affinity_if_concurrent()?;
        let mut meta = ColorMeta::of_task(affinity.clone(), handler);
        if self.queue.meta.is_kept_in_background() {
            meta.keep_in_background();
        }
        Some((self.shared.place(affinity), meta))
    }

    /// Where events posted here may live, if the color is concurrent.
    pub(crate) fn affinity_if_concurrent(&self) -> Option<&Affinity> {
        self.queue.meta.bounded().filter(|bounded| bounded.is_concurrent).map(|bounded| &bounded.affinity)
    }

    /// The bound of a bounded color.
    pub(crate) fn event_bound(&self) -> Option<&EventBound> {
        self.queue.meta.bounded()?.bound.as_ref()
    }
}

#[cfg(test)]
impl Color {
    /// Number of taken places, and number of waiting posters.
    pub(crate) fn waiters(&self) -> (usize, usize) {
        let EventBound { most, permits } = self.event_bound().expect("a bounded color");
        (most - permits.free(), permits.waiting())
    }
}
