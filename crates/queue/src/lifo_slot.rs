//! The LIFO slot: a token that a core keeps out of the ready queue, to run next.
//!
//! The core fills and empties the slot. If the core is busy for too long, a thread that finds the
//! token stuck takes the token instead. Exactly one of these threads gets the token. Leaves out
//! when a token is kept and when a token counts as stuck: the scheduler decides that. Checked in
//! `model/lifo_slot.rs`.
#![allow(unsafe_code)]

use crate::{
    canary::{Bug, planted},
    color_head::ColorHead,
    sync::{AtomicPtr, Ordering},
    token::{ColorRef, Token},
};
use std::ptr::{NonNull, null_mut};

/// A slot for a single token.
pub struct LifoSlot<D: 'static = ()>(AtomicPtr<ColorHead<D>>);

impl<D> Default for LifoSlot<D> {
    fn default() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }
}

impl<D> LifoSlot<D> {
    /// Keeps a token. Only the core calls this, after taking the previous token or seeing an empty
    /// slot.
    #[inline]
    pub fn put(&self, token: Token<D>) {
        debug_assert!(self.is_empty(), "one token at a time");
        // Release: the thread that takes the token continues after all writes made with the token
        // here.
        self.0.store(token.into_color().into_raw().as_ptr(), Ordering::Release);
    }

    /// Takes the token, if there is one.
    #[inline]
    pub fn take(&self) -> Option<Token<D>> {
        let head = NonNull::new(self.0.load(Ordering::Relaxed))?;
        if planted(Bug::TakeLifoSlotInTwoSteps) {
            self.0.store(null_mut(), Ordering::Relaxed);
        } else {
            // Acquire pairs with `put`. If the token was taken and kept again meanwhile, the token
            // is of the same color and serves equally.
            self.0.compare_exchange(head.as_ptr(), null_mut(), Ordering::Acquire, Ordering::Relaxed).ok()?;
        }
        // SAFETY: `put` stored the pointer with a reference count, and no other thread has taken
        // the pointer.
        Some(Token::new(unsafe { ColorRef::from_raw(head) }))
    }

    /// Whether the slot is empty; a hint for every thread but the core.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }
}

impl<D> Drop for LifoSlot<D> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
