//! How a confined process removes a name that it made before its confinement: the broker removes
//! the name.
//!
//! Leaves out the choice of the name, and the request (`broker/`).

use std::{fmt, sync::Arc};

/// Removes one name in place of the process that holds this value.
#[derive(Clone)]
pub struct Remover(Arc<dyn Fn() + Send + Sync>);

impl Remover {
    /// A value that calls `remove` in place of a removal by this process.
    pub fn new(remove: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(remove))
    }

    /// Removes the name. A failure is harmless, because the next start removes names that ended
    /// servers left behind.
    pub fn remove(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Remover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Remover")
    }
}
