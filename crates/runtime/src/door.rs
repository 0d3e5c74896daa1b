//! The door of a color: how many events the color takes, and whether each event gets a new color.
//!
//! Most colors have no door; a poster sees that where it reads the color's seat. A *bounded* color
//! takes a limited number of events that have not begun; waiting posters enter in order
//! (`room.rs`). A *free* color stands for "no exclusion" in place of a real color and never runs
//! itself. Tested in `tests/free.rs` and `tests/room.rs`.

use crate::{
    Color,
    color::{About, Seat},
    handle::Handle,
    room::{Line, Room},
    spec::Place,
};
use std::{
    sync::{Arc, Mutex},
    task::Waker,
};

/// The door of a color.
pub(crate) struct Door {
    /// Where the color may live, or the colors of its events.
    pub(crate) seat: Seat,
    is_free: bool,
    bound: Option<Bound>,
}

/// The bound on events of a color.
struct Bound {
    most: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    taken: usize,
    /// A poster waits only if all places are taken.
    line: Line,
}

impl State {
    /// Takes a place, unless all are taken.
    fn take(&mut self, most: Option<usize>) -> bool {
        let enters = Some(self.taken) < most;
        self.taken += usize::from(enters);
        enters
    }
}

/// A place behind a door, given back when its event begins or is dropped.
pub(crate) struct Taken(Arc<Door>);

impl Drop for Taken {
    fn drop(&mut self) {
        let first = self.0.with(|state| {
            // The place passes to the first waiting poster.
            let first = state.line.let_in();
            state.taken -= usize::from(first.is_none());
            first
        });
        first.into_iter().for_each(Waker::wake);
    }
}

impl Door {
    fn before(seat: Seat, is_free: bool, most: Option<usize>) -> Seat {
        let bound = most.map(|most| Bound { most: most.max(1), state: Mutex::default() });
        Seat::Behind(Arc::new(Self { seat, is_free, bound }))
    }

    /// The bound on events behind the door, if the door counts events.
    pub(crate) fn bound(&self) -> Option<usize> {
        self.bound.as_ref().map(|bound| bound.most)
    }

    fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let bound = self.bound.as_ref().expect("only a door that counts has places");
        f(&mut bound.state.lock().expect("nothing panics under this lock"))
    }

    /// Takes a place behind a door that counts, unless all places are taken.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Taken> {
        let most = self.bound();
        self.with(|state| state.take(most)).then(|| Taken(self.clone()))
    }

    /// The place that the poster has waited for.
    pub(crate) fn taken(self: &Arc<Self>) -> Taken {
        Taken(self.clone())
    }
}

impl Room for &Arc<Door> {
    fn enter(&self, waker: &Waker) -> Option<u64> {
        let most = self.bound();
        self.with(|state| (!state.take(most)).then(|| state.line.join(waker)))
    }

    fn waits(&self, ticket: u64, waker: &Waker) -> bool {
        let mut waker = waker.clone();
        self.with(|state| state.line.has(ticket, &mut waker))
    }

    fn give_up(&self, ticket: u64) {
        let left = self.with(|state| state.line.leave(ticket));
        if left.is_none() {
            drop(self.taken());
        }
    }
}

impl Handle {
    /// A free color, on which no events exclude each other: every event or task that is posted,
    /// spawned or hops there gets a new color. For code that takes a color and should run in
    /// parallel.
    ///
    /// No state can belong to a free color, because nothing ever runs on the color itself.
    pub fn free_color(&self) -> Color {
        self.free_color_at(&Place::Any)
    }

    /// A free color; each of its events lives where `place` says.
    ///
    /// # Panics
    /// As [`color_at`](Self::color_at).
    pub fn free_color_at(&self, place: &Place) -> Color {
        self.new_color(Door::before(self.seat(place), true, None))
    }
}

impl Color {
    /// Bounds the posted events of the color that have not begun, at least 1. Beyond the bound
    /// [`Handler::post`](crate::Handler::post) returns the event, and
    /// [`post_when_room`](crate::Handler::post_when_room) waits. Neither tasks nor meetings
    /// ([`Handle::when`]) count. For a [free](Handle::free_color) color, the events on all of its
    /// events' colors count together.
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
        let is_free = self.is_free();
        let queue = Arc::get_mut(&mut self.queue).expect("a color is bounded before it is shared or used");
        queue.about_mut().reseat(|seat| Door::before(seat.inner().clone(), is_free, Some(events)));
        self
    }

    /// Whether every event that is posted there runs in parallel to all other events
    /// ([`Handle::free_color`]).
    pub fn is_free(&self) -> bool {
        self.seat_if_free().is_some()
    }

    /// The color for another event or task: this color, or a new color if this color is free.
    pub(crate) fn for_one(&self) -> Self {
        self.for_one_if_free().unwrap_or_else(|| self.clone())
    }

    /// A new color for an event or task, if this color is free.
    pub(crate) fn for_one_if_free(&self) -> Option<Self> {
        let seat = self.seat_if_free()?;
        let core = self.shared.place(seat);
        Some(Self::new(core, About::new(seat.clone()), self.shared.clone()))
    }

    /// Where events posted here may live, if the color is free.
    pub(crate) fn seat_if_free(&self) -> Option<&Seat> {
        self.queue.about.door().filter(|door| door.is_free).map(|door| &door.seat)
    }

    /// The door of a bounded color.
    pub(crate) fn door_with_bound(&self) -> Option<&Arc<Door>> {
        self.queue.about.door().filter(|door| door.bound.is_some())
    }
}

#[cfg(test)]
impl Color {
    /// Number of taken places, and number of waiting posters.
    pub(crate) fn crowd(&self) -> (usize, usize) {
        self.door_with_bound().expect("a bounded color").with(|state| (state.taken, state.line.len()))
    }
}
