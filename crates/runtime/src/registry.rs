//! The waiting tasks of a core, so the core can cancel the remaining tasks when the runtime stops.
//!
//! Leaves out the task itself: `task_body.rs`. Tested in `tests/task.rs`.

use slab::Slab;
use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

/// Tasks that are cancelled between two signs of life.
const CANCELLED_AT_ONCE: usize = 1024;

/// A task that can be cancelled. By default, both calls do nothing.
pub(crate) trait Cancel: Send + Sync {
    fn cancel(self: Pin<Arc<Self>>) {}

    /// The runtime has ended, and will not run the task.
    fn abandon(self: Pin<Arc<Self>>) {}
}

/// The tasks that have begun on a core and wait, on any core. The registry keeps each task alive
/// until the task ends, also a task without any waker left. So each future is dropped on its color:
/// by the task's end, or when the runtime stops. The queue keeps a task that has not begun, and
/// most short tasks never wait.
#[derive(Default)]
pub(crate) struct Registry {
    tasks: Mutex<Slab<Pin<Arc<dyn Cancel>>>>,
    waiting: AtomicUsize,
    cancelled: AtomicBool,
}

impl Registry {
    /// Keeps `task`, and returns its slot.
    pub(crate) fn insert(&self, task: Pin<Arc<dyn Cancel>>) -> u32 {
        let mut tasks = self.tasks.lock().expect("nothing panics under this lock");
        let slot = tasks.insert(task) as u32;
        self.waiting.store(tasks.len(), Ordering::Release);
        slot
    }

    pub(crate) fn remove(&self, slot: u32) {
        let mut tasks = self.tasks.lock().expect("nothing panics under this lock");
        // No task after `clear`: the core did not stop in time, and its event has returned since.
        let ended = tasks.try_remove(slot as usize);
        self.waiting.store(tasks.len(), Ordering::Release);
        drop((tasks, ended));
    }

    /// Tasks that have begun and not ended.
    pub(crate) fn len(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Cancels every task, once. A second call returns at once, because the tasks are cancelled
    /// already. Only the registry's core calls this, after it has seen that the runtime stops, and
    /// registers no task afterwards. `lives` is called now and then.
    pub(crate) fn cancel_all(&self, lives: impl Fn()) {
        if self.cancelled.swap(true, Ordering::AcqRel) {
            return;
        }
        let tasks: Vec<_> = {
            let tasks = self.tasks.lock().expect("nothing panics under this lock");
            tasks.iter().map(|(_, task)| task.clone()).collect()
        };
        for (number, task) in tasks.into_iter().enumerate() {
            task.cancel();
            if number % CANCELLED_AT_ONCE == 0 {
                lives();
            }
        }
    }

    /// Whether the core has seen that the runtime stops, and registers no task any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Drops the remaining tasks after the cores have stopped.
    pub(crate) fn clear(&self) {
        let left = std::mem::take(&mut *self.tasks.lock().expect("nothing panics under this lock"));
        left.into_iter().for_each(|(_, task)| task.abandon());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct CancelCounts(AtomicUsize);

    impl Cancel for CancelCounts {
        fn cancel(self: Pin<Arc<Self>>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A core that stopped with 16,000 tasks cancelled all remaining tasks before it ran each next
    /// task.
    #[test]
    fn a_task_is_cancelled_once_however_often_is_asked() {
        let registry = Registry::default();
        let tasks: [Pin<Arc<CancelCounts>>; 2] = Default::default();
        let concurrency_limit = tasks.each_ref().map(|task| registry.insert(task.clone()));
        registry.cancel_all(|| ());
        registry.remove(concurrency_limit[0]);
        registry.cancel_all(|| ());
        assert_eq!(tasks.map(|task| task.0.load(Ordering::Relaxed)), [1, 1]);
        assert_eq!(registry.len(), 1);
    }
}
