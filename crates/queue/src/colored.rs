//! State that is reachable only while its color runs: no lock, no atomic, a panic instead of a race.
//!
//! Owns the thread's note of which color it is running, set by `Token::run` alone. Since a color has one token and a
//! thread runs one event at a time, "this thread is running color c" is true on at most one thread at once: that is the
//! exclusion `Colored` rests on. Checked in `model/color.rs` through loom's cell, misuse in `tests.rs`.
#![allow(unsafe_code)]

use crate::{ColorId, sync::UnsafeCell};
use std::cell::Cell;

#[cfg(not(loom))]
thread_local! {
    static CURRENT: Cell<Option<ColorId>> = const { Cell::new(None) };
}

#[cfg(loom)]
loom::thread_local! {
    static CURRENT: Cell<Option<ColorId>> = Cell::new(None);
}

/// The color this thread is running, if any.
pub fn current_color() -> Option<ColorId> {
    CURRENT.with(Cell::get)
}

/// Restores the thread's former color, also when an event unwinds.
pub(crate) struct OnColor(Option<ColorId>);

pub(crate) fn enter(color: ColorId) -> OnColor {
    OnColor(CURRENT.with(|current| current.replace(Some(color))))
}

impl Drop for OnColor {
    fn drop(&mut self) {
        CURRENT.with(|current| current.set(self.0));
    }
}

/// A value that belongs to one color.
///
/// `T: Send` suffices to share it between threads: it is only ever touched by the thread that runs its color, and runs
/// of one color never overlap. The value is dropped by whoever drops the last reference, on any thread.
pub struct Colored<T> {
    color: ColorId,
    /// Guards against using the value again from inside its own `with`.
    in_use: Cell<bool>,
    value: UnsafeCell<T>,
}

// SAFETY: `in_use` and `value` are reached only through `with`, which checks that this thread is running the color;
// the color's token makes that true on one thread at a time and orders the runs.
unsafe impl<T: Send> Sync for Colored<T> {}

impl<T> Colored<T> {
    /// Puts `value` under the protection of `color`.
    pub fn new(color: ColorId, value: T) -> Self {
        Self { color, in_use: Cell::new(false), value: UnsafeCell::new(value) }
    }

    /// Takes the value out, wherever the owner is.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    /// Works on the value.
    ///
    /// # Panics
    /// When called off the color, or from inside another `with` on the same value.
    #[track_caller]
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        assert!(
            current_color() == Some(self.color),
            "state of color {} used outside of it: post an event or spawn a task on that color instead",
            self.color.0
        );
        assert!(!self.in_use.replace(true), "state of color {} used while it is in use", self.color.0);
        let _release = Release(&self.in_use);
        // SAFETY: see `Sync` above for other threads; `in_use` excludes a second borrow on this one.
        self.value.with_mut(|value| f(unsafe { &mut *value }))
    }
}

struct Release<'a>(&'a Cell<bool>);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}
