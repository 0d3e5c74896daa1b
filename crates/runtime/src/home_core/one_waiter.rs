//! One waiting task at a time, because the driver wakes one task for each direction of an object.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
};

/// Ensures that a single task at a time waits for an event that only a single task is told about.
#[derive(Debug, Default)]
pub(crate) struct OneWaiter(AtomicBool);

/// A task waits until this guard is dropped.
pub(crate) struct WaitGuard<'a>(&'a OneWaiter);

impl OneWaiter {
    /// A task begins to wait. `what`: the resource that two tasks cannot wait for.
    pub(crate) fn take(&self, what: &str) -> io::Result<WaitGuard<'_>> {
        // Acquire: the task before may have waited on another core. Partner: the Release store in
        // `drop`.
        if self.0.swap(true, Ordering::Acquire) { Err(taken(what)) } else { Ok(WaitGuard(self)) }
    }

    /// Fails if a task waits.
    pub(crate) fn check(&self, what: &str) -> io::Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(taken(what)) } else { Ok(()) }
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}

#[cold]
fn taken(what: &str) -> io::Error {
    let advice = format!(
        "another task already waits for {what}: only one task may wait at a time; let it pass the data on"
    );
    io::Error::new(io::ErrorKind::ResourceBusy, advice)
}
