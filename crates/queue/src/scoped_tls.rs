//! A scoped thread-local: the object that a thread works for, reachable from all code that the
//! thread runs.
//!
//! For a `thread_local!`: a pointer that is set for a scope, so that a read is one load. The
//! alternatives (`OnceCell`, any type with a destructor) first check for initialisation and
//! destruction. Tested here.
#![allow(unsafe_code)]

use std::{cell::Cell, ptr, thread::LocalKey};

/// A thread's slot for a reference.
pub struct ScopedTls<T: 'static>(Cell<*const T>);

impl<T> ScopedTls<T> {
    /// An empty slot.
    pub const fn unset() -> Self {
        Self(Cell::new(ptr::null()))
    }

    /// Runs `f` while `value` is in this thread's slot, in place of the former reference.
    pub fn set_during<R>(place: &'static LocalKey<Self>, value: &T, f: impl FnOnce() -> R) -> R {
        let _before = RestoreOnDrop(place, place.with(|here| here.0.replace(value)));
        f()
    }

    /// Calls `f` with the reference in this thread's slot.
    // The key's closure contains only the load, because a larger closure is called instead of
    // inlined.
    #[inline(always)]
    pub fn with<R>(place: &'static LocalKey<Self>, f: impl FnOnce(Option<&T>) -> R) -> R {
        let here = place.with(|here| here.0.get());
        // SAFETY: `set_during` has set the pointer to a value that `set_during` borrows, and resets
        // the pointer before returning, also on unwinding. A `Cell` is not shared, so that happened
        // on this thread, and `set_during` has not returned while `f` runs.
        f(unsafe { here.as_ref() })
    }
}

/// Restores the former reference.
struct RestoreOnDrop<T: 'static>(&'static LocalKey<ScopedTls<T>>, *const T);

impl<T> Drop for RestoreOnDrop<T> {
    fn drop(&mut self) {
        self.0.with(|here| here.0.set(self.1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    thread_local! {
        static HERE: ScopedTls<u32> = const { ScopedTls::unset() };
    }

    #[test]
    fn value_is_visible_only_within_its_scope() {
        let seen = || ScopedTls::with(&HERE, |here| here.copied());
        assert_eq!(seen(), None);
        ScopedTls::set_during(&HERE, &1, || {
            assert_eq!(seen(), Some(1));
            ScopedTls::set_during(&HERE, &2, || assert_eq!(seen(), Some(2)));
            assert_eq!(seen(), Some(1));
        });
        let unwound =
            catch_unwind(AssertUnwindSafe(|| ScopedTls::set_during(&HERE, &3, || panic!("planted"))));
        assert!(unwound.is_err() && seen().is_none());
    }
}
