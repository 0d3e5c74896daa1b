//! A core's address, for objects on its driver or among its timers: how other threads reach and
//! release such an object.
//!
//! A socket works on its own core only, but any thread may drop it: a task that has hopped, another
//! thread, the last owner of an `Arc`. The drop leaves the key in the core's tray and wakes the
//! core. The core closes the objects in its tray before each look at its I/O. A core that has ended
//! has closed all its objects. Tested in `tests/letting_go.rs`.

use crate::{runtime_id::RuntimeId, timers::Timer};
use std::{
    fmt, io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};
use vermeil_io::{ListenerKey, SourceKey, StreamKey, Unparker};
use vermeil_sched::CoreIndex;

/// Identifies a core among all cores that the process ever has. Objects on a driver or a timer
/// queue use this address, because another runtime has a core with the same index.
#[derive(Clone)]
pub(crate) struct HomeCore(Arc<CloseQueue>);

struct CloseQueue {
    runtime: RuntimeId,
    core: CoreIndex,
    bell: Unparker,
    /// The tray is not empty. Written under the lock.
    holds: AtomicBool,
    /// `None` once the core has ended.
    things: Mutex<Option<Vec<CloseRequest>>>,
}

/// An object that its owner has dropped or closed.
#[derive(Debug)]
pub(crate) enum CloseRequest {
    /// Stops listening; the driver still gives out connections that the kernel had accepted.
    Closed(ListenerKey),
    Listener(ListenerKey),
    Stream(StreamKey),
    Source(SourceKey),
    Timer(Arc<Timer>),
}

impl HomeCore {
    pub(crate) fn new(runtime: RuntimeId, core: CoreIndex, bell: Unparker) -> Self {
        let things = Mutex::new(Some(Vec::new()));
        Self(Arc::new(CloseQueue { runtime, core, bell, holds: AtomicBool::new(false), things }))
    }

    pub(crate) fn runtime(&self) -> RuntimeId {
        self.0.runtime
    }

    pub(crate) fn core(&self) -> CoreIndex {
        self.0.core
    }

    pub(crate) fn leave(&self, thing: CloseRequest) {
        let mut things = self.0.things.lock().expect("nothing panics under this lock");
        let Some(held) = things.as_mut() else { return };
        let is_first = held.is_empty();
        held.push(thing);
        self.0.holds.store(true, Ordering::Release);
        drop(things);
        if is_first {
            self.0.bell.unpark();
        }
    }

    /// Takes the objects in the tray.
    pub(crate) fn take(&self) -> Vec<CloseRequest> {
        let mut things = self.0.things.lock().expect("nothing panics under this lock");
        self.0.holds.store(false, Ordering::Relaxed);
        things.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The core has ended: its driver closes all objects.
    pub(crate) fn end(&self) {
        let things = self.0.things.lock().expect("nothing panics under this lock").take();
        drop(things);
    }

    /// Whether things wait for the core.
    #[inline]
    pub(crate) fn holds(&self) -> bool {
        self.0.holds.load(Ordering::Acquire)
    }
}

impl PartialEq for HomeCore {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for HomeCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Home").field(&self.0.core).finish()
    }
}

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
