//! References to a runtime, for objects that may outlive the runtime: handles, colors, tasks.
//!
//! A reference count that all cores change is a contended line, touched at the begin and end of
//! each task. So each core has a [`LocalRef`] of its own, and a reference counts on that of
//! the core that makes the reference. Tested by everything that outlives a runtime:
//! `tests/task.rs`, `tests/handler.rs`.

use crate::{runtime_id::RuntimeId, shared::RuntimeShared};
use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::{Arc, RwLock, Weak},
};

/// The runtimes that have not ended. Only threads that are not cores use this table.
pub(crate) static RUNTIMES: RwLock<BTreeMap<RuntimeId, Weak<LocalRef>>> = RwLock::new(BTreeMap::new());

/// A reference to a runtime: keeps the shared state of the cores alive.
pub(crate) struct RuntimeRef(pub(crate) Arc<LocalRef>);

/// The reference count of a core.
pub(crate) struct LocalRef(Arc<RuntimeShared>);

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
}

impl Deref for RuntimeRef {
    type Target = RuntimeShared;

    #[inline]
    fn deref(&self) -> &RuntimeShared {
        &self.0.0
    }
}
