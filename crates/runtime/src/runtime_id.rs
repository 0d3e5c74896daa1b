//! The number of a runtime.

use std::sync::atomic::{AtomicU64, Ordering};

/// A runtime's number among all runtimes of the process. Handlers and kinds of tasks are copied
/// freely and name their runtime by this number, which keeps nothing alive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct RuntimeId(u64);

impl RuntimeId {
    pub(crate) fn next() -> Self {
        static RUNTIMES: AtomicU64 = AtomicU64::new(0);
        Self(RUNTIMES.fetch_add(1, Ordering::Relaxed))
    }
}
