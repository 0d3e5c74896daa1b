//! A result cell: the value is received once or dropped once, and a waiting thread is woken.

use crate::Promise;
use loom::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};
use std::{
    sync::Arc,
    task::{Poll, Wake, Waker},
};

/// Counts wake-ups.
#[derive(Default)]
struct WakeCount(AtomicUsize);

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A value that counts drops.
struct DropCount(Arc<AtomicUsize>);

impl Drop for DropCount {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn reader_gets_the_result_or_a_wake_up() {
    loom::model(|| {
        let (promise, mut join) = Promise::new();
        let leaves = thread::spawn(move || promise.complete(7));
        let [first, second] = [(); 2].map(|()| Arc::new(WakeCount::default()));
        let mut got = join.poll(&Waker::from(first.clone()));
        if got.is_pending() {
            got = join.poll(&Waker::from(second.clone()));
        }
        let waits = got.is_pending();
        leaves.join().unwrap();
        // Only the last waker counts, if the poll returned pending.
        assert!(!waits || second.0.load(Ordering::Relaxed) == 1, "woken");
        let got = if waits { join.poll(Waker::noop()) } else { got };
        assert_eq!(got, Poll::Ready(7));
    });
}

#[test]
fn cell_drops_results_without_a_reader() {
    loom::model(|| {
        let drops = Arc::new(AtomicUsize::new(0));
        let (promise, mut join) = Promise::new();
        let promise = Arc::new(promise);
        let leaves = {
            let (promise, value) = (promise.clone(), DropCount(drops.clone()));
            thread::spawn(move || promise.complete(value))
        };
        let first = join.poll(Waker::noop());
        promise.complete(DropCount(drops.clone()));
        assert!(drops.load(Ordering::Relaxed) <= 1, "one of the two is kept while somebody may ask for it");
        drop(join);
        drop(first);
        leaves.join().unwrap();
        assert_eq!(drops.load(Ordering::Relaxed), 2);
    });
}
