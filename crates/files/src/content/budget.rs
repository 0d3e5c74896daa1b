//! Bounds on the contents and descriptors of the cache.
//!
//! A [`Charge`] lives exactly as long as the content or descriptor that it counts. The bound
//! therefore holds however late a core drops its references. Tested in `tests/bounds.rs`.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// A bound on an amount, and the amount in use.
#[derive(Debug)]
pub(crate) struct ContentBudget {
    used: AtomicU64,
    max: u64,
}

/// A part of a budget, given back when dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<ContentBudget>,
    amount: u64,
}

impl ContentBudget {
    pub(crate) fn new(max: u64) -> Arc<Self> {
        Arc::new(Self { used: AtomicU64::new(0), max })
    }

    /// Takes `amount`, or returns `None` if less is left.
    pub(crate) fn take(self: &Arc<Self>, amount: u64) -> Option<Charge> {
        let add = |used: u64| used.checked_add(amount).filter(|&sum| sum <= self.max);
        // Relaxed: a count, which publishes nothing.
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(Charge { budget: self.clone(), amount })
    }

    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.amount, Ordering::Relaxed);
    }
}
