//! The requests to a core about objects of its driver: closes, detaches and attaches.
//!
//! A request is carried out at once on the core itself, and elsewhere through the core's list.
//! Leaves out the list (`home_core.rs`) and the decision about each step of a move
//! (`vermeil_queue::Attachment`). Tested in `tests/socket_drop.rs` and `tests/moves.rs`.

use crate::{
    core::{Core, current},
    home_core::{AttachRequest, CoreRequest, DetachRequest, HomeCore, Moves},
};
use std::{io, sync::Arc};
use vermeil_io::{Detached, ObjectKey};
use vermeil_queue::{DetachOutcome, OwnWaiters};

impl HomeCore {
    /// Carries out a request on this core, from any thread.
    pub(crate) fn request(&self, request: CoreRequest) {
        let mut left = Some(request);
        current(|core| {
            if core.home == *self {
                left = left.take().and_then(|request| core.carry_out(request));
            }
        });
        if let Some(request) = left {
            self.leave(request);
        }
    }
}

impl Core {
    /// Carries out the requests of other threads. Returns whether there were any.
    #[inline]
    pub(crate) fn attend_requests(&self) -> bool {
        self.home.holds() && self.attend_present_requests()
    }

    #[cold]
    fn attend_present_requests(&self) -> bool {
        while self.home.holds() {
            for request in self.home.take() {
                // Between two events no object of the core is in use.
                let _ = self.carry_out(request);
            }
        }
        true
    }

    /// Carries out a request. Returns the request if the driver or the timers are in use: both wake
    /// tasks, and a task may drop the last reference to an object.
    fn carry_out(&self, request: CoreRequest) -> Option<CoreRequest> {
        if let CoreRequest::Timer(timer) = &request {
            return match self.io.timers.try_borrow_mut() {
                Ok(mut timers) => {
                    timers.settle(timer);
                    None
                }
                Err(_) => Some(request),
            };
        }
        let Ok(mut driver) = self.io.driver.try_borrow_mut() else { return Some(request) };
        match request {
            CoreRequest::StopListening(key) => driver.close_listener(key),
            CoreRequest::Close(ObjectKey::Listener(key)) => driver.discard_listener(key),
            CoreRequest::Close(ObjectKey::Stream(key)) => driver.close_stream(key),
            CoreRequest::Close(ObjectKey::Source(key)) => driver.close_source(key),
            CoreRequest::Detach(request) => {
                let begun = driver.detach(request.key);
                drop(driver);
                if begun {
                    self.begin_detach(request);
                }
            }
            CoreRequest::Attach(request) => {
                drop(driver);
                let moves = request.begin();
                // A core whose task came first has the object already.
                if let Some(object) = moves.attachment.claim() {
                    let _ = self.attach(&moves, object);
                    // The running event has not waited for this object.
                    let _ = moves.take_asked();
                }
            }
            CoreRequest::Timer(_) => {}
        }
        None
    }

    fn begin_detach(&self, request: DetachRequest) {
        let former = self.io.detaching.borrow_mut().insert(request.key, request);
        debug_assert!(former.is_none(), "an object is asked for once");
        self.end_detaches();
    }

    /// Passes on the objects that have left the driver in a turn.
    #[inline]
    pub(crate) fn attend_detaches(&self) {
        if !self.io.detaching.borrow().is_empty() {
            self.end_detaches();
        }
    }

    #[cold]
    fn end_detaches(&self) {
        loop {
            // The driver and the table are free again before a waker runs.
            let left = self.io.driver.borrow_mut().take_detached();
            let Some((key, object)) = left else { return };
            let request = self.io.detaching.borrow_mut().remove(&key);
            let moves = request.expect("only asked objects leave").end();
            let waiters = |object: &mut Detached, asked| OwnWaiters {
                needs_driver: moves.has_calls() || object.needs_driver(asked),
                asked_too: object.take_waiters(asked),
            };
            match moves.attachment.detached(object, waiters) {
                DetachOutcome::Rest => {}
                DetachOutcome::Close(object) => moves.close(object),
                DetachOutcome::Send(there) => {
                    // A core that has ended drops the request, which wakes the waiting tasks.
                    there.leave(CoreRequest::Attach(AttachRequest::new(moves)));
                }
            }
        }
    }

    /// Gives an object from another driver to this core's driver.
    pub(crate) fn attach(&self, moves: &Arc<Moves>, object: Detached) -> io::Result<ObjectKey> {
        let attached = self.driver().attach(object);
        let key = match attached {
            Ok(key) => key,
            Err(error) => {
                moves.attachment.lost();
                return Err(error);
            }
        };
        let is_dropped = moves.attachment.attached(&self.home, key.bits()).is_some();
        if moves.has_calls() {
            // Before a close, because the driver resets a connection with an unsent rest.
            moves.carry_out(&mut self.io.driver.borrow_mut(), key);
        }
        if is_dropped {
            self.home.request(CoreRequest::Close(key));
            return Err(io::ErrorKind::NotConnected.into());
        }
        Ok(key)
    }
}
