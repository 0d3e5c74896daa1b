//! A core's address, for objects on its driver or among its timers: how other threads reach such an
//! object.
//!
//! A driver answers on its own core only. A thread elsewhere that drops an object, or a core that
//! needs an object, leaves a request in the core's list and wakes the core. The core carries out
//! its requests before each look at its I/O (`requests.rs`). A core that has ended has closed all
//! its objects. Tested in `tests/socket_drop.rs` and `tests/moves.rs`.

mod moves;
mod one_waiter;

pub(crate) use moves::{AttachRequest, DetachRequest, Moves, QueuedSend};
pub(crate) use one_waiter::OneWaiter;

use crate::timers::Timer;
use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use vermeil_io::{ListenerKey, ObjectKey, Unparker};
use vermeil_queue::DriverCore;
use vermeil_sched::CoreIndex;

/// Identifies a core among all cores that the process ever has. Objects on a driver or a timer
/// queue use this address, because another runtime has a core with the same index.
#[derive(Clone)]
pub(crate) struct HomeCore(Arc<RequestList>);

struct RequestList {
    number: u64,
    core: CoreIndex,
    bell: Unparker,
    /// The list is not empty. Written under the lock.
    holds: AtomicBool,
    /// `None` once the core has ended.
    requests: Mutex<Option<Vec<CoreRequest>>>,
}

/// A request to a core from another thread.
pub(crate) enum CoreRequest {
    /// Stops listening; the driver still gives out connections that the kernel had accepted.
    StopListening(ListenerKey),
    /// Closes an object that its owner has dropped.
    Close(ObjectKey),
    /// Takes an object out of the driver, for another core.
    Detach(DetachRequest),
    /// Attaches an object that another core has detached for this core.
    Attach(AttachRequest),
    /// Disarms a timer that its owner has dropped, or arms a timer whose deadline is earlier now.
    Timer(Arc<Timer>),
}

impl HomeCore {
    pub(crate) fn new(core: CoreIndex, bell: Unparker) -> Self {
        static CORES: AtomicU64 = AtomicU64::new(1);
        let number = CORES.fetch_add(1, Ordering::Relaxed);
        let requests = Mutex::new(Some(Vec::new()));
        Self(Arc::new(RequestList { number, core, bell, holds: AtomicBool::new(false), requests }))
    }

    /// The index of the core in its runtime.
    pub(crate) fn core(&self) -> CoreIndex {
        self.0.core
    }

    /// Leaves a request to the core. Returns false if the core has ended; the request is then
    /// dropped.
    pub(crate) fn leave(&self, request: CoreRequest) -> bool {
        let mut requests = self.0.requests.lock().expect("nothing panics under this lock");
        let Some(held) = requests.as_mut() else { return false };
        let is_first = held.is_empty();
        held.push(request);
        self.0.holds.store(true, Ordering::Release);
        drop(requests);
        if is_first {
            self.0.bell.unpark();
        }
        true
    }

    /// Takes the requests to the core.
    pub(crate) fn take(&self) -> Vec<CoreRequest> {
        let mut requests = self.0.requests.lock().expect("nothing panics under this lock");
        self.0.holds.store(false, Ordering::Relaxed);
        requests.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The core has ended: its driver closes all objects.
    pub(crate) fn end(&self) {
        let requests = self.0.requests.lock().expect("nothing panics under this lock").take();
        drop(requests);
    }

    /// Whether requests wait for the core.
    #[inline]
    pub(crate) fn holds(&self) -> bool {
        self.0.holds.load(Ordering::Acquire)
    }
}

impl DriverCore for HomeCore {
    #[inline]
    fn number(&self) -> u64 {
        self.0.number
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
