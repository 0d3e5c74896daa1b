//! Stands for a driver's wait in the checkers' scenarios, under loom and under shuttle.
//!
//! Leaves out everything else of a core, which each scenario has in its own way.

#[cfg(loom)]
use loom::sync::{Condvar, Mutex};
#[cfg(shuttle)]
use shuttle::sync::{Condvar, Mutex};

/// A wake-up that comes before the wait is kept, as an eventfd keeps it.
#[derive(Default)]
pub(crate) struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    pub(crate) fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.changed.notify_one();
    }

    pub(crate) fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.changed.wait(rung).unwrap();
        }
        *rung = false;
    }
}
