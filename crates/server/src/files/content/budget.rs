//! Bounds on what the cache holds, counted where it is held.
//!
//! A [`Charge`] lives exactly as long as what it stands for, wherever that is referred to, so a bound holds whatever the
//! cores do and however late they let go. Tested in `tests/bounds.rs`.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// How much of something may exist, and how much does.
#[derive(Debug)]
pub(in crate::files) struct Budget {
    used: AtomicU64,
    max: u64,
}

/// A part of a budget, given back when dropped.
#[derive(Debug)]
pub(in crate::files) struct Charge {
    budget: Arc<Budget>,
    amount: u64,
}

impl Budget {
    pub(in crate::files) fn new(max: u64) -> Arc<Self> {
        Arc::new(Self { used: AtomicU64::new(0), max })
    }

    /// Takes `amount`, or nothing if so much is not left.
    pub(in crate::files) fn take(self: &Arc<Self>, amount: u64) -> Option<Charge> {
        let add = |used: u64| used.checked_add(amount).filter(|&sum| sum <= self.max);
        // Relaxed: a count, which publishes nothing.
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(Charge { budget: self.clone(), amount })
    }

    pub(in crate::files) fn max(&self) -> u64 {
        self.max
    }

    pub(in crate::files) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.amount, Ordering::Relaxed);
    }
}
