//! The blocking pool: a few threads for calls that cannot be asynchronous, for example opening a
//! cold file.
//!
//! The threads and the queued jobs are bounded, and a full queue is an error, not a wait. A thread
//! starts when a job first needs a thread, and is not pinned to a core's cpu. Written by hand,
//! because the crates for this job either bring a runtime or start threads without a bound and
//! inherit the pinning of their first caller.

use crate::{core::current, error::BlockingFull};
use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind},
    sync::{Arc, Condvar, Mutex},
    task::{Poll, Waker},
};
use vermeil_io::{allow_current_thread, preempt_when_woken, preempts_when_woken};

type BlockingJob = Box<dyn FnOnce() + Send>;

pub(crate) struct BlockingPool(Arc<BlockingInner>);

struct BlockingInner {
    state: Mutex<BlockingState>,
    work: Condvar,
    threads_max: usize,
    queue_max: usize,
    /// Cpus that a worker may run on: the cpus of the process before the cores were pinned.
    cpus: Vec<usize>,
    /// Scheduling class of the thread that made the pool, because the thread that starts a worker
    /// may have changed its own class for a moment.
    preempts: Option<bool>,
}

#[derive(Default)]
struct BlockingState {
    jobs: VecDeque<BlockingJob>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl BlockingPool {
    pub(crate) fn new(threads_max: usize, queue_max: usize, cpus: Vec<usize>) -> Self {
        Self(Arc::new(BlockingInner {
            state: Mutex::default(),
            work: Condvar::new(),
            threads_max,
            queue_max,
            cpus,
            preempts: preempts_when_woken(),
        }))
    }

    fn submit(&self, job: BlockingJob) -> Result<(), BlockingFull> {
        let mut state = self.0.state.lock().expect("nothing panics under this lock");
        if state.jobs.len() >= self.0.queue_max || state.closed {
            return Err(BlockingFull { bound: self.0.queue_max });
        }
        state.jobs.push_back(job);
        if state.idle < state.jobs.len() && state.threads < self.0.threads_max {
            let inner = self.0.clone();
            let started =
                std::thread::Builder::new().name("vermeil-block".into()).spawn(move || inner.work());
            match started {
                Ok(_) => state.threads += 1,
                // With at least one thread, the job runs later; without threads, the job would
                // never run.
                Err(_) if state.threads > 0 => {}
                Err(_) => {
                    state.jobs.pop_back();
                    return Err(BlockingFull { bound: self.0.queue_max });
                }
            }
        }
        drop(state);
        self.0.work.notify_one();
        Ok(())
    }

    /// Rejects new jobs from now on; the threads end when the queue is empty.
    pub(crate) fn close(&self) {
        self.0.state.lock().expect("nothing panics under this lock").closed = true;
        self.0.work.notify_all();
    }
}

impl BlockingInner {
    fn work(&self) {
        // Failure is harmless: a worker that stays pinned like its parent blocks on a core's cpu.
        let _ = allow_current_thread(&self.cpus);
        if let Some(preempts) = self.preempts {
            let _ = preempt_when_woken(preempts);
        }
        loop {
            let job = {
                let mut state = self.state.lock().expect("nothing panics under this lock");
                loop {
                    if let Some(job) = state.jobs.pop_front() {
                        break job;
                    }
                    if state.closed {
                        state.threads -= 1;
                        return;
                    }
                    state.idle += 1;
                    state = self.work.wait(state).expect("nothing panics under this lock");
                    state.idle -= 1;
                }
            };
            job();
        }
    }
}

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
