//! The fair semaphore: permits bound the holders, none is lost, and every waiter gets its permit.

use super::Within;
use crate::{FairSemaphore, PermitOutcome};
use loom::thread;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// A semaphore, and the state that one permit protects. std's counter adds no orderings that loom
/// could rely on.
struct Guarded {
    semaphore: FairSemaphore<()>,
    within: Within,
    served: AtomicUsize,
}

impl Guarded {
    fn new(permits: usize) -> Arc<Self> {
        let served = AtomicUsize::new(0);
        Arc::new(Self { semaphore: FairSemaphore::new(permits), within: Within::default(), served })
    }

    /// Uses a permit, then serves the waiters that get the permit.
    fn serve(&self) {
        loop {
            self.within.touch();
            self.served.fetch_add(1, Ordering::Relaxed);
            if self.semaphore.release().is_none() {
                return;
            }
        }
    }

    /// Asks for a permit, or leaves the use to the thread that returns one.
    fn ask(&self) {
        if let PermitOutcome::Acquired(()) = self.semaphore.acquire(()) {
            self.serve();
        }
    }

    /// Waits and gives up, as a cancelled task.
    fn give_up(&self) {
        match self.semaphore.acquire(()) {
            PermitOutcome::Acquired(()) => self.serve(),
            PermitOutcome::Waits(ticket) => {
                // A thread that granted the wait serves for this waiter, so no permit is due here.
                if self.semaphore.leave(ticket).is_some() {
                    self.served.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    fn assert_at_rest(&self, permits: usize, served: usize) {
        assert_eq!((self.semaphore.free(), self.semaphore.waiting()), (permits, 0));
        assert_eq!(self.served.load(Ordering::Relaxed), served);
        assert!(self.semaphore.try_acquire());
    }
}

#[test]
fn every_waiter_gets_the_permit_alone() {
    loom::model(|| {
        let guarded = Guarded::new(1);
        let others: Vec<_> = (0..2)
            .map(|_| {
                let guarded = guarded.clone();
                thread::spawn(move || guarded.ask())
            })
            .collect();
        guarded.ask();
        others.into_iter().for_each(|other| other.join().unwrap());
        guarded.assert_at_rest(1, 3);
    });
}

#[test]
fn waiter_that_leaves_loses_no_permit() {
    loom::model(|| {
        let guarded = Guarded::new(1);
        let others: Vec<_> = [Guarded::ask, Guarded::give_up]
            .into_iter()
            .map(|ask| {
                let guarded = guarded.clone();
                thread::spawn(move || ask(&guarded))
            })
            .collect();
        guarded.ask();
        others.into_iter().for_each(|other| other.join().unwrap());
        guarded.assert_at_rest(1, 3);
    });
}

#[test]
fn returned_permit_goes_to_the_first_waiter() {
    loom::model(|| {
        let semaphore = Arc::new(FairSemaphore::new(1));
        assert!(semaphore.try_acquire());
        assert!(matches!(semaphore.acquire(1), PermitOutcome::Waits(_)));
        assert!(matches!(semaphore.acquire(2), PermitOutcome::Waits(_)));
        let late = {
            let semaphore = semaphore.clone();
            thread::spawn(move || semaphore.try_acquire())
        };
        assert_eq!([semaphore.release(), semaphore.release()], [Some(1), Some(2)]);
        assert!(!late.join().unwrap(), "waiters go first");
        assert_eq!(semaphore.release(), None);
        assert_eq!(semaphore.free(), 1);
    });
}
