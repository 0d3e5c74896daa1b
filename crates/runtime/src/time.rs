//! Sleeping and time limits for tasks.

use crate::{
    core::{Core, current},
    home_core::{CoreRequest, HomeCore},
    timers::{NEVER, Timer},
};
use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// A time limit ran out.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone, Copy)]
#[error("the time limit ran out")]
pub struct Timeout;

/// Waits until a deadline. The deadline can be moved at any time, also while a task waits; a move
/// to a later time costs a store.
///
/// Poll a sleep on a core of a runtime.
#[derive(Debug)]
pub struct Sleep {
    deadline_ns: u64,
    /// The timer and its core, once the sleep was polled.
    timer: Option<(HomeCore, Arc<Timer>)>,
}

/// Waits for `duration` from now.
///
/// # Panics
/// Off a core.
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    let mut sleep = Sleep::unset();
    sleep.set(duration);
    sleep
}

/// The message about a sleep off a core.
const NEEDS_A_CORE: &str = "a sleep is made and polled on a core of a runtime: in a task (`Handle::spawn`)";

impl Sleep {
    /// A sleep without a deadline: waits for ever until [`set`](Sleep::set) sets a deadline.
    pub const fn unset() -> Self {
        Self { deadline_ns: NEVER, timer: None }
    }

    /// Moves the deadline to `duration` from now.
    ///
    /// # Panics
    /// Off a core.
    #[track_caller]
    pub fn set(&mut self, duration: Duration) {
        let now_ns = current(Core::right_now_ns).expect(NEEDS_A_CORE);
        let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(NEVER);
        let deadline_ns = now_ns.saturating_add(duration_ns);
        let is_earlier = deadline_ns < std::mem::replace(&mut self.deadline_ns, deadline_ns);
        if let Some((home, timer)) = &self.timer {
            timer.set_deadline(deadline_ns);
            // A task may wait for the sleep already, and nothing polls the sleep before the former
            // deadline. Only on the core of the timer is `armed_ns` certain.
            let fires_first =
                || timer.armed_ns() <= deadline_ns && current(|core| core.home == *home) == Some(true);
            if is_earlier && !fires_first() {
                home.request(CoreRequest::Timer(timer.clone()));
            }
        }
    }

    /// Runs `future` until this deadline. May be used again, with the same or another deadline.
    ///
    /// # Errors
    /// [`Timeout`] if the deadline came first.
    pub async fn limit<F: Future>(&mut self, future: F) -> Result<F::Output, Timeout> {
        let mut future = pin!(future);
        poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => Pin::new(&mut *self).poll(context).map(|()| Err(Timeout)),
        })
        .await
    }

    fn forget(&mut self) {
        let Some((home, timer)) = self.timer.take() else { return };
        timer.abandon();
        home.request(CoreRequest::Timer(timer));
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        current(|core| {
            if core.now_ns() >= self.deadline_ns {
                return Poll::Ready(());
            }
            if self.timer.as_ref().is_some_and(|(home, _)| *home != core.home) {
                self.forget();
            }
            let deadline_ns = self.deadline_ns;
            let (_, timer) = self.timer.get_or_insert_with(|| {
                let timer = core.io.timers.borrow_mut().timer();
                timer.set_deadline(deadline_ns);
                (core.home.clone(), timer)
            });
            timer.set_waker(context.waker());
            if deadline_ns < timer.armed_ns() {
                core.io.timers.borrow_mut().arm(timer);
            }
            Poll::Pending
        })
        .expect(NEEDS_A_CORE)
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.forget();
    }
}
