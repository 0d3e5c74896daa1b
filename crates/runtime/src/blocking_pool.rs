//! The threads for blocking work: started when needed, not pinned, and bounded.
//!
//! Leaves out the wait of a task for its result (`blocking.rs`).

use crate::error::BlockingFull;
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex},
};
use vermeil_io::allow_current_thread;

type BlockingJob = Box<dyn FnOnce() + Send>;

pub(crate) struct BlockingPool(Arc<BlockingInner>);

struct BlockingInner {
    state: Mutex<BlockingState>,
    work: Condvar,
    threads_max: usize,
    queue_max: usize,
    /// Cpus that a worker may run on: the cpus of the process before the cores were pinned.
    cpus: Vec<usize>,
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
        }))
    }

    pub(crate) fn submit(&self, job: BlockingJob) -> Result<(), BlockingFull> {
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
            // A job reports the panic of its code, but the destructor of an unclaimed result may
            // panic too. The thread survives, because otherwise the pool would miss the thread.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(job)) {
                // The destructor of the payload may panic as well.
                std::mem::forget(payload);
            }
        }
    }
}
