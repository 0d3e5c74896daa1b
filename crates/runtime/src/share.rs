//! A part in a runtime, for whatever may outlive it: handles, colors, tasks.
//!
//! A count that all cores change is a line that all of them wait for, with each task that begins or ends. So each core has a
//! [`Lease`] of its own, and who takes part counts on the lease of the core where that happens. Tested by everything that outlives
//! a runtime: `tests/task.rs`, `tests/handler.rs`.

use crate::{
    core::{current, current_of},
    shared::Shared,
};
use std::{ops::Deref, sync::Arc};

/// A part in a runtime: keeps what its cores share alive.
pub(crate) struct Share(Arc<Lease>);

/// What is counted on one core.
struct Lease(Arc<Shared>);

impl Share {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(Arc::new(Lease(shared)))
    }

    /// Whether both are of one runtime.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        std::ptr::eq::<Shared>(&**self, &**other)
    }

    /// Works on the runtime with something that keeps `Self` alive and may be gone before `f` returns.
    #[inline]
    pub(crate) fn outlived_by<T, R>(
        share: impl for<'a> FnOnce(&'a T) -> &'a Self,
        owner: T,
        f: impl FnOnce(&Shared, T) -> R,
    ) -> R {
        let own = share(&owner);
        if current_of(own, |_| ()).is_some() {
            // The core lasts longer than what runs on it.
            return current(|core| f(&core.shared, owner)).expect("this thread is a core");
        }
        let own = own.clone();
        f(&own, owner)
    }
}

impl Clone for Share {
    #[inline]
    fn clone(&self) -> Self {
        let here = current_of(self, |core| core.share.0.clone());
        Self(here.unwrap_or_else(|| self.0.clone()))
    }
}

impl Deref for Share {
    type Target = Shared;

    #[inline]
    fn deref(&self) -> &Shared {
        &self.0.0
    }
}
