//! Replaces a driver's blocking wait in the loom and shuttle scenarios. Each scenario supplies the
//! rest of a core.

#[cfg(loom)]
use loom::sync::{Condvar, Mutex};
#[cfg(shuttle)]
use shuttle::sync::{Condvar, Mutex};

/// A wake-up that arrives before the wait is kept, as an eventfd keeps a wake-up.
#[derive(Default)]
pub(crate) struct FakeEventfd {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl FakeEventfd {
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
