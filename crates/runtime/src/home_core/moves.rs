//! The moves of an object between the drivers of cores, and the calls that wait for the next
//! driver.
//!
//! `vermeil_queue::Attachment` has the steps and the argument. A call that does not wait, such as a
//! send, cannot move the object to the caller's core first. Such a call is kept here, and the core
//! that attaches the object carries it out. Tested in `tests/moves.rs`.

use super::HomeCore;
use bytes::Bytes;
use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};
use vermeil_io::{Detached, Driver, More, ObjectKey, contain, reset_when_closed};
use vermeil_queue::{Attachment, DetachOutcome, OwnWaiters};
use vermeil_sched::CoreIndex;

/// An object that has moved, or is asked to move.
pub(crate) struct Moves {
    pub(crate) attachment: Attachment<HomeCore, Detached>,
    calls: Mutex<QueuedCalls>,
    /// Whether `calls` has a call or an error. Written under the lock.
    has_calls: AtomicBool,
    /// The time of the last request to move, and the core that was asked.
    asked_ns: AtomicU64,
    asked_core: AtomicU32,
}

/// Calls for the next driver, in the order in which they are carried out.
#[derive(Default)]
struct QueuedCalls {
    send: Option<QueuedSend>,
    shuts_down: bool,
    stops_listening: bool,
    /// The error of such a call, for the next call that waits for the end of a send.
    failed: Option<io::Error>,
}

/// A send for the next driver.
pub(crate) struct QueuedSend {
    pub(crate) head: Vec<u8>,
    pub(crate) body: Bytes,
    pub(crate) more: More,
}

/// A request to detach an object. Dropping the request before the object has left wakes the waiting
/// tasks, because the core has ended.
pub(crate) struct DetachRequest {
    pub(crate) key: ObjectKey,
    /// `None` once the object has left.
    moves: Option<Arc<Moves>>,
}

/// A request to attach an object that another core has detached. Dropping the request wakes the
/// tasks that wait in the object, because the core has ended.
pub(crate) struct AttachRequest(Option<Arc<Moves>>);

impl Moves {
    pub(crate) fn new(core: HomeCore, key: ObjectKey) -> Arc<Self> {
        Arc::new(Self {
            attachment: Attachment::new(core, key.bits()),
            calls: Mutex::default(),
            has_calls: AtomicBool::new(false),
            asked_ns: AtomicU64::new(0),
            asked_core: AtomicU32::new(0),
        })
    }

    fn with_calls<R>(&self, f: impl FnOnce(&mut QueuedCalls) -> R) -> R {
        let mut calls = self.calls.lock().expect("nothing panics under this lock");
        let result = f(&mut calls);
        let is_any =
            calls.send.is_some() || calls.shuts_down || calls.stops_listening || calls.failed.is_some();
        self.has_calls.store(is_any, Ordering::Release);
        result
    }

    /// Queues a send for the next driver. Gives the send back if another send is queued.
    pub(crate) fn queue_send(&self, send: QueuedSend) -> Result<(), QueuedSend> {
        self.with_calls(|calls| match &calls.send {
            Some(_) => Err(send),
            None => {
                calls.send = Some(send);
                Ok(())
            }
        })
    }

    /// Queues the end of sending. Returns false if a send is queued.
    pub(crate) fn queue_shutdown(&self) -> bool {
        self.with_calls(|calls| {
            calls.shuts_down |= calls.send.is_none();
            calls.send.is_none()
        })
    }

    /// Queues the end of listening.
    pub(crate) fn queue_stop_listening(&self) {
        self.with_calls(|calls| calls.stops_listening = true);
    }

    /// Closes an object that no driver gets any more. A peer that misses a queued send sees a
    /// reset, so that the peer does not mistake the bytes so far for all bytes.
    pub(crate) fn close(&self, object: Detached) {
        if self.has_calls() && self.with_calls(|calls| calls.send.is_some()) {
            object.reset_when_closed();
        }
        drop(object);
    }

    /// No core attaches the object by itself. Wakes the tasks that wait in the object, because each
    /// of these tasks can come for the object.
    fn leave_to_waiters(&self) {
        let Some(mut object) = self.attachment.claim() else { return };
        let waiters = object.take_waiters([true; 2]);
        if let DetachOutcome::Close(object) = self.attachment.detached(object, |_, _| OwnWaiters::default()) {
            self.close(object);
        }
        waiters.into_iter().flatten().for_each(|waker| contain(|| waker.wake()));
    }

    /// Whether calls wait for the next driver.
    #[inline]
    pub(crate) fn has_calls(&self) -> bool {
        // Acquire: a call that was queued on another core before this look must be seen whole.
        self.has_calls.load(Ordering::Acquire)
    }

    /// Carries out the queued calls on the driver that has the object.
    #[cold]
    pub(crate) fn carry_out(&self, driver: &mut Driver, key: ObjectKey) {
        let dropped = self.with_calls(|calls| {
            let mut result = Ok(());
            let send = calls.send.take();
            if let (Some(send), ObjectKey::Stream(key)) = (send, key) {
                result = driver.start_send(key, send.head, send.body, send.more);
                if result.is_err() {
                    // The peer never gets these bytes, so a clean end would mislead the peer.
                    reset_when_closed(driver.stream_fd(key));
                }
            }
            if let (true, ObjectKey::Stream(key)) = (std::mem::take(&mut calls.shuts_down), key) {
                result = result.and(driver.shutdown_write(key));
            }
            if let (true, ObjectKey::Listener(key)) = (std::mem::take(&mut calls.stops_listening), key) {
                driver.close_listener(key);
            }
            result.err().and_then(|error| calls.failed.replace(error))
        });
        drop(dropped);
    }

    /// Drops the queued calls, because no driver carries out the calls any more.
    pub(crate) fn forget_calls(&self) {
        let forgotten = self.with_calls(|calls| {
            (calls.shuts_down, calls.stops_listening) = (false, false);
            calls.send.take()
        });
        drop(forgotten);
    }

    /// The error of a queued call, once.
    pub(crate) fn take_failure(&self) -> Option<io::Error> {
        if self.has_calls() { self.with_calls(|calls| calls.failed.take()) } else { None }
    }

    /// Records a request to `core` to detach the object.
    pub(crate) fn note_asked(&self, core: CoreIndex, now_ns: u64) {
        self.asked_core.store(core.0, Ordering::Relaxed);
        self.asked_ns.store(now_ns, Ordering::Relaxed);
    }

    /// The core that was asked last, and the time, once.
    pub(crate) fn take_asked(&self) -> Option<(CoreIndex, u64)> {
        match self.asked_ns.swap(0, Ordering::Relaxed) {
            0 => None,
            asked_ns => Some((CoreIndex(self.asked_core.load(Ordering::Relaxed)), asked_ns)),
        }
    }
}

impl DetachRequest {
    pub(crate) fn new(key: ObjectKey, moves: Arc<Moves>) -> Self {
        Self { key, moves: Some(moves) }
    }

    /// The object has left the driver, or the driver does not have the object.
    pub(crate) fn end(mut self) -> Arc<Moves> {
        self.moves.take().expect("a request ends once")
    }
}

impl AttachRequest {
    pub(crate) fn new(moves: Arc<Moves>) -> Self {
        Self(Some(moves))
    }

    /// The core carries out the request.
    pub(crate) fn begin(mut self) -> Arc<Moves> {
        self.0.take().expect("a request begins once")
    }
}

impl Drop for AttachRequest {
    fn drop(&mut self) {
        if let Some(moves) = self.0.take() {
            moves.leave_to_waiters();
        }
    }
}

impl Drop for DetachRequest {
    fn drop(&mut self) {
        if let Some(moves) = self.moves.take() {
            moves.attachment.lost();
        }
    }
}
