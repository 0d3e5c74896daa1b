//! The tasks that wait, so that they can be ended: how a core cancels what is left when the runtime stops.
//!
//! Leaves out what a task is: `body.rs`. Tested in `tests/task.rs`.

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

/// Something that can be made to end; what cannot does nothing.
pub(crate) trait Cancel: Send + Sync {
    fn cancel(self: Pin<Arc<Self>>) {}

    /// Its runtime has ended, and will not run it.
    fn abandon(self: Pin<Arc<Self>>) {}
}

/// The tasks that have begun on one core and wait, wherever their colors go. It keeps each alive until it ends, also one that
/// nobody is left to wake, so that its future is dropped on its color: by its end, or when the runtime stops. One that has not
/// begun is kept by the queue that it stands in, and most that are short never wait.
#[derive(Default)]
pub(crate) struct Registry {
    tasks: Mutex<Slab<Pin<Arc<dyn Cancel>>>>,
    waiting: AtomicUsize,
    cancelled: AtomicBool,
}

impl Registry {
    /// Keeps `task`; gives its place.
    pub(crate) fn insert(&self, task: Pin<Arc<dyn Cancel>>) -> u32 {
        let mut tasks = self.tasks.lock().expect("nothing panics under this lock");
        let slot = tasks.insert(task) as u32;
        self.waiting.store(tasks.len(), Ordering::Release);
        slot
    }

    pub(crate) fn remove(&self, slot: u32) {
        let mut tasks = self.tasks.lock().expect("nothing panics under this lock");
        // None after `clear`: the core was left behind, and its event has returned since.
        let ended = tasks.try_remove(slot as usize);
        self.waiting.store(tasks.len(), Ordering::Release);
        drop((tasks, ended));
    }

    /// Tasks that have begun and not ended.
    pub(crate) fn len(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Cancels every task, each once: whoever asks again, to see whether they have ended, waits for those. For the core whose
    /// registry this is, once it has seen that the runtime stops: it registers none from then on.
    /// `lives` is called now and then.
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

    /// Whether its core has seen that the runtime stops, and registers no task any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Lets go of what is left once the cores have stopped.
    pub(crate) fn clear(&self) {
        let left = std::mem::take(&mut *self.tasks.lock().expect("nothing panics under this lock"));
        left.into_iter().for_each(|(_, task)| task.abandon());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Counts(AtomicUsize);

    impl Cancel for Counts {
        fn cancel(self: Pin<Arc<Self>>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A core that stopped with 16,000 tasks cancelled all that were left before it ran the next of them.
    #[test]
    fn a_task_is_cancelled_once_however_often_is_asked() {
        let registry = Registry::default();
        let tasks: [Pin<Arc<Counts>>; 2] = Default::default();
        let slots = tasks.each_ref().map(|task| registry.insert(task.clone()));
        registry.cancel_all(|| ());
        registry.remove(slots[0]);
        registry.cancel_all(|| ());
        assert_eq!(tasks.map(|task| task.0.load(Ordering::Relaxed)), [1, 1]);
        assert_eq!(registry.len(), 1);
    }
}
