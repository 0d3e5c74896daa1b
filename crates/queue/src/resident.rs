//! A value that lives on a color and never moves until it ends: a task's future, inside the task's own memory.
//!
//! Owns the promise that `Pin` asks for: what is in a `Resident` is reached in place only, is dropped in place, and its owner
//! is pinned ([`Repeating`](crate::Repeating) is made as `Pin<Arc<_>>`). Exclusion is `Colored`'s. Tested in `tests.rs`.
#![allow(unsafe_code)]

use crate::{ColorId, Colored};
use std::pin::Pin;

/// Something pinned that is reachable only while its color runs, until it is set to nothing.
pub struct Resident<T>(Colored<Option<T>>);

impl<T> Resident<T> {
    pub(crate) fn new(color: ColorId, value: T) -> Self {
        Self(Colored::new(color, Some(value)))
    }

    /// The color it belongs to.
    pub fn color(&self) -> ColorId {
        self.0.color()
    }

    /// Gives it to another color, as [`Colored::move_to`] does; its memory stays where it is.
    ///
    /// # Panics
    /// As there.
    pub fn move_to(&self, to: ColorId) {
        self.0.move_to(to);
    }

    /// Works on it.
    ///
    /// # Panics
    /// As [`Colored::with`].
    #[track_caller]
    pub fn with<R>(self: Pin<&Self>, f: impl FnOnce(Pin<&mut Option<T>>) -> R) -> R {
        // SAFETY: we are pinned, so the value stays where it is until it is dropped, in place; nobody else hands out
        // references to it, and this one is pinned.
        self.get_ref().0.with(|value| f(unsafe { Pin::new_unchecked(value) }))
    }
}
