//! References to a runtime, for objects that may outlive the runtime: handles, colors, tasks.
//!
//! A reference count that all cores change is a contended line, touched at the begin and end of
//! each task. So each core has a [`LocalRef`] of its own, and a reference counts on the lease of
//! the core that makes the reference. Tested by everything that outlives a runtime:
//! `tests/task.rs`, `tests/handler.rs`.

use crate::{
    core::{current, current_of},
    shared::RuntimeShared,
};
use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::{
        Arc, RwLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

/// A runtime's number among all runtimes of the process. Handlers and kinds of tasks are copied
/// freely and name their runtime by this number, which keeps nothing alive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct RuntimeId(u64);

/// The runtimes that have not ended. Only threads that are not cores use this table.
static RUNTIMES: RwLock<BTreeMap<RuntimeId, Weak<LocalRef>>> = RwLock::new(BTreeMap::new());

impl RuntimeId {
    pub(crate) fn next() -> Self {
        static RUNTIMES: AtomicU64 = AtomicU64::new(0);
        Self(RUNTIMES.fetch_add(1, Ordering::Relaxed))
    }

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

/// A reference to a runtime: keeps the shared state of the cores alive.
pub(crate) struct RuntimeRef(Arc<LocalRef>);

/// The reference count of a core.
struct LocalRef(Arc<RuntimeShared>);

impl RuntimeRef {
    pub(crate) fn new(shared: Arc<RuntimeShared>) -> Self {
        Self(Arc::new(LocalRef(shared)))
    }

    /// Registers the runtime by its number.
    pub(crate) fn register(&self) {
        let mut runtimes = RUNTIMES.write().expect("nothing panics under this lock");
        runtimes.insert(self.id, Arc::downgrade(&self.0));
    }

    /// Removes the runtime's number, because the runtime has ended.
    pub(crate) fn unregister(&self) {
        RUNTIMES.write().expect("nothing panics under this lock").remove(&self.id);
    }

    #[cfg(test)]
    pub(crate) fn arc(&self) -> Arc<RuntimeShared> {
        self.0.0.clone()
    }

    /// Whether both refer to the same runtime.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        std::ptr::eq::<RuntimeShared>(&**self, &**other)
    }

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

impl Deref for RuntimeRef {
    type Target = RuntimeShared;

    #[inline]
    fn deref(&self) -> &RuntimeShared {
        &self.0.0
    }
}
