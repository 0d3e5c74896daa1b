//! Deadlines of a stop: the end of the wait for balancers, and the end of the instances. By the
//! second each instance has cut all connections, unless it hangs.
//!
//! Tested below, and through the binary (`crates/e2e/tests/e2e/instances.rs`).

use std::{
    sync::{Condvar, Mutex, MutexGuard},
    time::{Duration, Instant},
};

/// Extra time beyond an instance's own limit before it is killed: ten times the time to cut ten
/// thousand connections and to write the rest of a log.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// A deadline that can move forward or be cancelled.
#[derive(Debug)]
pub(super) struct ShutdownDeadline {
    /// `None` once the deadline is cancelled.
    at: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl ShutdownDeadline {
    /// The deadline after `patience`.
    pub(super) fn after(patience: Duration) -> Self {
        Self { at: Mutex::new(Some(Instant::now() + patience)), changed: Condvar::new() }
    }

    fn at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.at.lock().expect("nothing panics under this lock")
    }

    /// Moves the deadline to the grace period from now.
    pub(super) fn hurry(&self) {
        let soon = Instant::now() + GRACE;
        let mut at = self.at();
        *at = at.map(|at| at.min(soon));
        self.changed.notify_all();
    }

    /// Cancels the deadline, because all instances have ended.
    pub(super) fn cancel(&self) {
        *self.at() = None;
        self.changed.notify_all();
    }

    /// Waits for the deadline. Returns false if the deadline was cancelled.
    pub(super) fn has_passed(&self) -> bool {
        let mut at = self.at();
        loop {
            let Some(left) = at.map(|at| at.saturating_duration_since(Instant::now())) else { return false };
            if left.is_zero() {
                return true;
            }
            (at, _) = self.changed.wait_timeout(at, left).expect("nothing panics under this lock");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn ended_instance_is_not_overdue() {
        let shutdown_deadline = ShutdownDeadline::after(LONG);
        thread::scope(|scope| {
            let comes = scope.spawn(|| shutdown_deadline.has_passed());
            shutdown_deadline.cancel();
            assert!(!comes.join().unwrap());
        });
        shutdown_deadline.hurry();
        assert!(!shutdown_deadline.has_passed());
    }

    #[test]
    fn hurried_instance_is_overdue_soon() {
        let shutdown_deadline = ShutdownDeadline::after(LONG);
        thread::scope(|scope| {
            let comes = scope.spawn(|| shutdown_deadline.has_passed());
            shutdown_deadline.hurry();
            assert!(comes.join().unwrap());
        });
    }
}
