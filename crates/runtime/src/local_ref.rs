//! Makes and uses references to a runtime on a core, where a reference counts on the core's own
//! `LocalRef`.
//!
//! Leaves out the references (`runtime_ref.rs`). Tested in `tests/task.rs` and `tests/handler.rs`.

use crate::{
    core::{current, current_of},
    runtime_id::RuntimeId,
    runtime_ref::{RUNTIMES, RuntimeRef},
    shared::RuntimeShared,
};

impl RuntimeId {
    /// Whether this thread is a core of the runtime.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        current(|core| core.shared.id == self).unwrap_or(false)
    }

    /// Calls `f` with the runtime, unless the runtime has ended.
    #[inline]
    pub(crate) fn with<R>(self, f: impl FnOnce(&RuntimeRef) -> R) -> Option<R> {
        if self.is_here() {
            return current(|core| f(&core.share));
        }
        self.find().map(|share| f(&share))
    }

    #[cold]
    fn find(self) -> Option<RuntimeRef> {
        let runtimes = RUNTIMES.read().expect("nothing panics under this lock");
        runtimes.get(&self)?.upgrade().map(RuntimeRef)
    }
}

impl RuntimeRef {
    /// Calls `f` with the runtime and an owner of `Self` that may be gone before `f` returns.
    #[inline]
    pub(crate) fn with_runtime<T, R>(
        share: impl for<'a> FnOnce(&'a T) -> &'a Self,
        owner: T,
        f: impl FnOnce(&RuntimeShared, T) -> R,
    ) -> R {
        let own = share(&owner);
        if current_of(own, |_| ()).is_some() {
            // The core outlives everything that runs on it.
            return current(|core| f(&core.shared, owner)).expect("this thread is a core");
        }
        let own = own.clone();
        f(&own, owner)
    }
}

impl Clone for RuntimeRef {
    #[inline]
    fn clone(&self) -> Self {
        let here = current_of(self, |core| core.share.0.clone());
        Self(here.unwrap_or_else(|| self.0.clone()))
    }
}
