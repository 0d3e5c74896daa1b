//! What a thread works for, reachable from everything that it runs.
//!
//! For a `thread_local!`: a pointer that is set for as long as something runs, so that asking is one load. What is there besides
//! (`OnceCell`, or whatever has a destructor) asks first whether it was made and whether it is gone. Tested here.
#![allow(unsafe_code)]

use std::{cell::Cell, ptr, thread::LocalKey};

/// A place for a reference, of one thread.
pub struct Here<T: 'static>(Cell<*const T>);

impl<T> Here<T> {
    /// Nothing is here yet.
    pub const fn nothing() -> Self {
        Self(Cell::new(ptr::null()))
    }

    /// Runs `f` while `value` is at this thread's place, instead of what was.
    pub fn during<R>(place: &'static LocalKey<Self>, value: &T, f: impl FnOnce() -> R) -> R {
        let _before = Before(place, place.with(|here| here.0.replace(value)));
        f()
    }

    /// What is at this thread's place, shown to `f`.
    // The key's closure is the load alone, or it is called instead of inlined.
    #[inline(always)]
    pub fn with<R>(place: &'static LocalKey<Self>, f: impl FnOnce(Option<&T>) -> R) -> R {
        let here = place.with(|here| here.0.get());
        // SAFETY: `during` has set it to what it has borrowed, and takes it away before it returns, also when it unwinds. That was
        // on this thread, since a `Cell` is not shared: so `during` has not returned while `f` runs.
        f(unsafe { here.as_ref() })
    }
}

/// Puts back what was there.
struct Before<T: 'static>(&'static LocalKey<Here<T>>, *const T);

impl<T> Drop for Before<T> {
    fn drop(&mut self) {
        self.0.with(|here| here.0.set(self.1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    thread_local! {
        static HERE: Here<u32> = const { Here::nothing() };
    }

    #[test]
    fn it_is_here_while_something_runs() {
        let seen = || Here::with(&HERE, |here| here.copied());
        assert_eq!(seen(), None);
        Here::during(&HERE, &1, || {
            assert_eq!(seen(), Some(1));
            Here::during(&HERE, &2, || assert_eq!(seen(), Some(2)));
            assert_eq!(seen(), Some(1));
        });
        let unwound = catch_unwind(AssertUnwindSafe(|| Here::during(&HERE, &3, || panic!("planted"))));
        assert!(unwound.is_err() && seen().is_none());
    }
}
