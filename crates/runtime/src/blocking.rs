//! The blocking pool: a few threads for calls that cannot be asynchronous, for example opening a
//! cold file.
//!
//! The threads and the queued jobs are bounded, and a full queue is an error, not a wait. A thread
//! starts when a job first needs a thread, and is not pinned to a core's cpu. Written by hand,
//! because the crates for this job either bring a runtime or start threads without a bound and
//! inherit the pinning of their first caller.

use crate::{core::current, error::BlockingFull};
use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind},
    sync::{Arc, Mutex},
    task::{Poll, Waker},
};

struct BlockingSlot<T> {
    result: Option<std::thread::Result<T>>,
    waker: Option<Waker>,
}

/// Runs `f` on a thread where blocking is allowed, and waits for the result without blocking the
/// core. A panic in `f` continues in the caller.
///
/// # Errors
/// [`BlockingFull`] if [`crate::Limits::blocking_queue`] jobs wait already, if no thread can be
/// started, or if the runtime has stopped. `f` was not run.
///
/// # Panics
/// Off a core.
#[track_caller]
pub fn blocking<T, F>(f: F) -> impl Future<Output = Result<T, BlockingFull>>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    run(f, Location::caller())
}

/// `at`: the caller's location, for the panic message.
async fn run<T, F>(f: F, at: &Location<'_>) -> Result<T, BlockingFull>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let slot = Arc::new(Mutex::new(BlockingSlot { result: None, waker: None }));
    let filled = slot.clone();
    let job = Box::new(move || {
        let result = catch_unwind(AssertUnwindSafe(f));
        let mut slot = filled.lock().expect("nothing panics under this lock");
        slot.result = Some(result);
        let waker = slot.waker.take();
        drop(slot);
        if let Some(waker) = waker {
            waker.wake();
        }
    });
    let submitted = current(|core| core.shared.blocking.submit(job));
    submitted.unwrap_or_else(|| {
        panic!("`blocking` is awaited on a core of a runtime (`Handle::spawn`): not at {at}")
    })?;
    let result = poll_fn(|context| {
        let mut slot = slot.lock().expect("nothing panics under this lock");
        match slot.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    })
    .await;
    Ok(result.unwrap_or_else(|panic| resume_unwind(panic)))
}
