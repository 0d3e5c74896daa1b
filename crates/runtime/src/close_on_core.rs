//! Closes objects of a core's driver: at once on the core, and elsewhere through the core's list of
//! close requests.
//!
//! Leaves out the list (`home_core.rs`). Tested in `tests/letting_go.rs`.

use crate::{
    core::{Core, current},
    home_core::{CloseRequest, HomeCore},
};

impl HomeCore {
    /// Closes an object, from any thread.
    pub(crate) fn close_on_core(&self, thing: CloseRequest) {
        let mut left = Some(thing);
        current(|core| {
            if core.home == *self {
                left = left.take().and_then(|thing| core.close(thing));
            }
        });
        if let Some(thing) = left {
            self.leave(thing);
        }
    }
}

impl Core {
    /// Closes the objects that other threads have dropped.
    #[inline]
    pub(crate) fn close_all(&self) {
        while self.home.holds() {
            for thing in self.home.take() {
                // Between two events no object of the core is in use.
                let _ = self.close(thing);
            }
        }
    }

    /// Closes an object of this core. Returns the object if the driver or the timers are in use:
    /// both wake tasks, and a task may drop the last reference to an object.
    fn close(&self, thing: CloseRequest) -> Option<CloseRequest> {
        if let CloseRequest::Timer(timer) = &thing {
            return match self.timers.try_borrow_mut() {
                Ok(mut timers) => {
                    timers.disarm(timer);
                    None
                }
                Err(_) => Some(thing),
            };
        }
        let Ok(mut driver) = self.driver.try_borrow_mut() else { return Some(thing) };
        match thing {
            CloseRequest::Closed(key) => driver.close_listener(key),
            CloseRequest::Listener(key) => driver.discard_listener(key),
            CloseRequest::Stream(key) => driver.close_stream(key),
            CloseRequest::Source(key) => driver.close_source(key),
            CloseRequest::Timer(_) => {}
        }
        None
    }
}
