//! Until when instances that stop may take to end: by then each has cut what it had, unless it hangs.
//!
//! Tested below, and through the binary (`crates/cli/tests/e2e/instances.rs`).

use std::{
    sync::{Condvar, Mutex, MutexGuard},
    time::{Duration, Instant},
};

/// How much longer than it may an instance takes before it is ended by force. Guess: cutting ten thousand connections and writing the
/// last of a log take a tenth of that.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// A moment that may be brought forward, or never come.
#[derive(Debug)]
pub(super) struct Overdue {
    /// Nothing once it does not matter any more.
    at: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl Overdue {
    /// The moment when those that may take so long are overdue.
    pub(super) fn after(patience: Duration) -> Self {
        Self { at: Mutex::new(Some(Instant::now() + patience + GRACE)), changed: Condvar::new() }
    }

    fn at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.at.lock().expect("nothing panics under this lock")
    }

    /// They may not take any longer than it takes to end.
    pub(super) fn hurry(&self) {
        let soon = Instant::now() + GRACE;
        let mut at = self.at();
        *at = at.map(|at| at.min(soon));
        self.changed.notify_all();
    }

    /// All have ended.
    pub(super) fn never_mind(&self) {
        *self.at() = None;
        self.changed.notify_all();
    }

    /// Waits for the moment; whether it came.
    pub(super) fn comes(&self) -> bool {
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
    fn who_has_ended_is_not_overdue() {
        let overdue = Overdue::after(LONG);
        thread::scope(|scope| {
            let comes = scope.spawn(|| overdue.comes());
            overdue.never_mind();
            assert!(!comes.join().unwrap());
        });
        overdue.hurry();
        assert!(!overdue.comes());
    }

    #[test]
    fn who_is_told_to_hurry_is_overdue_soon() {
        let overdue = Overdue::after(LONG);
        thread::scope(|scope| {
            let comes = scope.spawn(|| overdue.comes());
            overdue.hurry();
            assert!(comes.join().unwrap());
        });
    }
}
