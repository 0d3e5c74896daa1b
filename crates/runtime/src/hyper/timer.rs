//! hyper's timer, over the timers of the core that polls.

use crate::{Sleep, sleep};
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

/// hyper's time limits on a core's timers.
///
/// The methods and the returned futures must run on a core of a runtime; elsewhere they panic.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoreTimer;

/// A [`Sleep`] for hyper.
struct HyperSleep(Sleep);

impl hyper::rt::Timer for CoreTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(HyperSleep(sleep(duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        self.sleep(deadline.saturating_duration_since(Instant::now()))
    }

    /// Moves the deadline, which costs a store. hyper's default would make a timer for every
    /// request.
    fn reset(&self, sleep: &mut Pin<Box<dyn hyper::rt::Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<HyperSleep>() {
            Some(mut own) => own.0.set(deadline.saturating_duration_since(Instant::now())),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

impl Future for HyperSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl hyper::rt::Sleep for HyperSleep {}
