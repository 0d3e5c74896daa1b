//! A token that its core keeps out of the ready queue, to run it next.
//!
//! The core puts it there and takes it; if it does not come to that, whoever finds the token caught takes it instead. One of
//! them gets it. Leaves out when a token is kept and when it is caught: the scheduler's. Checked in `model/kept.rs`.
#![allow(unsafe_code)]

use crate::{
    canary::{Bug, planted},
    sync::{AtomicPtr, Ordering},
    token::{ColorRef, Head, Token},
};
use std::ptr::{NonNull, null_mut};

/// A place for one token.
pub struct Kept<D: 'static = ()>(AtomicPtr<Head<D>>);

impl<D> Default for Kept<D> {
    fn default() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }
}

impl<D> Kept<D> {
    /// Keeps a token. For the core alone, which has taken the one before or seen that it is gone.
    #[inline]
    pub fn keep(&self, token: Token<D>) {
        debug_assert!(self.is_empty(), "one token at a time");
        // Release: whoever takes it continues after what was done with it here.
        self.0.store(token.into_color().into_raw().as_ptr(), Ordering::Release);
    }

    /// Takes what is kept.
    #[inline]
    pub fn take(&self) -> Option<Token<D>> {
        let head = NonNull::new(self.0.load(Ordering::Relaxed))?;
        if planted(Bug::TakeKeptInTwoSteps) {
            self.0.store(null_mut(), Ordering::Relaxed);
        } else {
            // Acquire pairs with `keep`. What has been taken and kept again meanwhile is a token of the same color: as good.
            self.0.compare_exchange(head.as_ptr(), null_mut(), Ordering::Acquire, Ordering::Relaxed).ok()?;
        }
        // SAFETY: `keep` has put it there with its count, and nobody else has taken it out.
        Some(Token::new(unsafe { ColorRef::from_raw(head) }))
    }

    /// Whether nothing is kept; a hint for all but the core.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }
}

impl<D> Drop for Kept<D> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
