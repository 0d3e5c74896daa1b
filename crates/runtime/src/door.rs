//! What stands before a color that is not like most: whether each event that is posted there goes on to a color of its own.
//!
//! Most colors have no door, and whoever posts sees that where it looks for the color's place. A *free* color is one to pass
//! on instead of a real one: it is not run itself. Tested in `tests/free.rs`.

use crate::{
    Color,
    color::{About, Seat},
    handle::Handle,
    spec::Place,
};
use std::sync::Arc;

/// The door of one color.
pub(crate) struct Door {
    /// Where the color may live, or the colors of its events.
    pub(crate) seat: Seat,
    is_free: bool,
}

impl Handle {
    /// A free color, on which nothing excludes anything: every event that is posted there, every task that is spawned there or hops
    /// there, has a new color of its own. For whatever takes a color and should run in parallel.
    ///
    /// No state can belong to it: nothing ever runs on the color itself.
    pub fn free_color(&self) -> Color {
        self.free_color_at(&Place::Any)
    }

    /// A free color, of whose events each lives where `place` says.
    ///
    /// # Panics
    /// As [`color_at`](Self::color_at).
    pub fn free_color_at(&self, place: &Place) -> Color {
        let seat = self.seat(place);
        self.new_color(Seat::Behind(Arc::new(Door { seat, is_free: true })))
    }
}

impl Color {
    /// Whether everything that is posted there runs beside everything else ([`Handle::free_color`]).
    pub fn is_free(&self) -> bool {
        self.queue.about.door().is_some_and(|door| door.is_free)
    }

    /// The color on which one more event or task is to be: itself, or a new one if it is free.
    pub(crate) fn for_one(&self) -> Self {
        self.for_one_if_free().unwrap_or_else(|| self.clone())
    }

    /// A new color for one event or task, if this one is free.
    pub(crate) fn for_one_if_free(&self) -> Option<Self> {
        let seat = self.seat_if_free()?;
        let core = self.shared.place(seat);
        Some(Self::new(core, About::new(seat.clone()), self.shared.clone()))
    }

    /// Where what is posted here may live, if the color is free.
    pub(crate) fn seat_if_free(&self) -> Option<&Seat> {
        self.queue.about.door().filter(|door| door.is_free).map(|door| &door.seat)
    }
}
