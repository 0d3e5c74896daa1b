//! A value that lives on a color and never moves until its end: a task's future, inside the task's
//! memory.
//!
//! Keeps the promise of `Pin`: a value in a `FutureSlot` is accessed and dropped in place, and the
//! owner is pinned ([`Repeating`](crate::Repeating) is made as `Pin<Arc<_>>`). `Colored` provides
//! the exclusion. Tested in `tests.rs`.
#![allow(unsafe_code)]

use crate::{color_id::ColorId, colored::Colored};
use std::pin::Pin;

/// A pinned value that is reachable only while the color runs, until the value is set to `None`.
pub struct FutureSlot<T>(Colored<Option<T>>);

impl<T> FutureSlot<T> {
    pub(crate) fn new(color: ColorId, value: T) -> Self {
        Self(Colored::new(color, Some(value)))
    }

    /// The color of the value.
    pub fn color(&self) -> ColorId {
        self.0.color()
    }

    /// Gives the value to another color, as [`Colored::move_to`] does; the memory stays in place.
    ///
    /// # Panics
    /// As `move_to` there.
    pub fn move_to(&self, to: ColorId) {
        self.0.move_to(to);
    }

    /// Gives `f` access to the value.
    ///
    /// # Panics
    /// As [`Colored::with`].
    #[track_caller]
    pub fn with<R>(self: Pin<&Self>, f: impl FnOnce(Pin<&mut Option<T>>) -> R) -> R {
        // SAFETY: `self` is pinned, so the value stays in place until it is dropped there. No other
        // function hands out references to the value, and this reference is pinned.
        self.get_ref().0.with(|value| f(unsafe { Pin::new_unchecked(value) }))
    }
}
