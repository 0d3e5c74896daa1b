//! State that is reachable only while a given color runs: no lock, no atomic, a panic instead of a
//! race.
//!
//! Keeps the thread-local record of the colors that this thread runs. Only `Token::run` and
//! `run_together` set the record. Because a color has one token, "this thread is running color c"
//! is true on at most one thread at once. `Colored` rests on that exclusion. Checked in
//! `model/color.rs` through loom's cell, misuse in `tests.rs`.
#![allow(unsafe_code)]

use crate::{
    color_id::ColorId,
    sync::{AtomicU64, Ordering, UnsafeCell},
};
use std::{
    cell::{Cell, RefCell},
    num::NonZeroU64,
};

#[cfg(not(any(loom, shuttle)))]
thread_local! {
    static CURRENT: Cell<Option<ColorId>> = const { Cell::new(None) };
    /// Colors run beside the current color; nearly always empty.
    static BESIDE: RefCell<Vec<ColorId>> = const { RefCell::new(Vec::new()) };
    static HOLD: Cell<bool> = const { Cell::new(false) };
}

#[cfg(loom)]
use loom::thread_local;
#[cfg(shuttle)]
use shuttle::thread_local;

#[cfg(any(loom, shuttle))]
thread_local! {
    static CURRENT: Cell<Option<ColorId>> = Cell::new(None);
    static BESIDE: RefCell<Vec<ColorId>> = RefCell::new(Vec::new());
    static HOLD: Cell<bool> = Cell::new(false);
}

/// Called by an event: after the event the color stands still, in a
/// [`HeldColor`](crate::HeldColor), until the `HeldColor` is released.
pub fn hold() {
    HOLD.with(|hold| hold.set(true));
}

/// Whether the event that has just run holds the color.
pub(crate) fn take_hold() -> bool {
    HOLD.with(|hold| hold.replace(false))
}

/// Undoes one `enter_too`, also on unwinding.
pub(crate) struct AlsoOnColor;

pub(crate) fn enter_too(color: ColorId) -> AlsoOnColor {
    BESIDE.with(|beside| beside.borrow_mut().push(color));
    AlsoOnColor
}

impl Drop for AlsoOnColor {
    fn drop(&mut self) {
        BESIDE.with(|beside| beside.borrow_mut().pop());
    }
}

/// Whether this thread is running `color`.
#[inline]
fn runs(color: ColorId) -> bool {
    current_color() == Some(color) || BESIDE.with(|beside| beside.borrow().contains(&color))
}

/// The color this thread is running, if any.
pub fn current_color() -> Option<ColorId> {
    CURRENT.with(Cell::get)
}

/// Restores the thread's former color, also on unwinding.
pub(crate) struct OnColor(Option<ColorId>);

pub(crate) fn enter(color: ColorId) -> OnColor {
    OnColor(CURRENT.with(|current| current.replace(Some(color))))
}

impl Drop for OnColor {
    fn drop(&mut self) {
        CURRENT.with(|current| current.set(self.0));
    }
}

/// A value that belongs to a color.
///
/// `T: Send` suffices to share the value between threads, because only the thread that runs the
/// color touches the value, and runs of a color never overlap. A panic does not poison the value.
/// The last owner drops the value, on any thread.
pub struct Colored<T> {
    /// The name of the color. `move_to` changes the name, on the color that the value leaves.
    color: AtomicU64,
    /// Guards against a nested use of the value inside `with`.
    in_use: Cell<bool>,
    value: UnsafeCell<T>,
}

// SAFETY: `in_use` and `value` are reached only through `with`, which checks that this thread is
// running the color. The color's token makes that true on one thread at a time and orders the runs.
unsafe impl<T: Send> Sync for Colored<T> {}

impl<T> Colored<T> {
    /// Puts `value` under the protection of `color`.
    pub fn new(color: ColorId, value: T) -> Self {
        Self { color: AtomicU64::new(color.0.get()), in_use: Cell::new(false), value: UnsafeCell::new(value) }
    }

    /// Takes the value out, regardless of the current color.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    /// The color the value belongs to.
    pub fn color(&self) -> ColorId {
        // Acquire pairs with the store in `move_to`: a thread that sees the new name sees the
        // value.
        ColorId(NonZeroU64::new(self.color.load(Ordering::Acquire)).expect("names are not zero"))
    }

    /// Gives the value to color `to`. From then on the value is reachable on `to` only.
    ///
    /// # Panics
    /// When called off the value's color, or from inside a `with` on the value.
    pub fn move_to(&self, to: ColorId) {
        // The borrow has ended before the store.
        self.with(|_| ());
        // Release pairs with the load in `color`.
        self.color.store(to.0.get(), Ordering::Release);
    }

    /// Gives `f` access to the value.
    ///
    /// # Panics
    /// When called off the color, or from inside another `with` on the same value.
    #[track_caller]
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let color = self.color();
        assert!(
            runs(color),
            "state of color {} used outside of it: post an event or spawn a task on that color instead",
            color.0
        );
        assert!(!self.in_use.replace(true), "state of color {} used while it is in use", color.0);
        let _release = ReleaseBorrow(&self.in_use);
        // SAFETY: see `Sync` above for other threads; `in_use` excludes a second borrow on this
        // thread.
        self.value.with_mut(|value| f(unsafe { &mut *value }))
    }
}

struct ReleaseBorrow<'a>(&'a Cell<bool>);

impl Drop for ReleaseBorrow<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}
