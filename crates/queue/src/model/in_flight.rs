//! In-flight counters: while an item is left, or a running item may bring more, no thread learns
//! that all is done.

use crate::{InFlight, Parking, RunFlag};
use loom::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

/// Two cores and a chain of events that alternate between the cores. Each event posts the next.
#[derive(Default)]
struct RelayMachine {
    counters: [InFlight; 2],
    runs: [RunFlag; 2],
    left: AtomicU32,
}

impl RelayMachine {
    /// Core `core` runs an event that was counted at `at`; the event that follows counts at `to`.
    fn run(&self, core: usize, at: usize, to: Option<usize>) {
        self.runs[core].begin();
        if at == core {
            self.counters[at].leave_local();
        } else {
            self.counters[at].leave_remote();
        }
        if let Some(to) = to {
            if to == core { self.counters[to].enter_local() } else { self.counters[to].enter_remote() }
        }
        self.left.fetch_sub(1, Ordering::Relaxed);
        self.runs[core].end();
    }

    fn is_done(&self) -> bool {
        InFlight::all_done(self.counters.iter(), self.runs.iter())
    }
}

#[test]
fn drain_never_sees_zero_while_events_remain() {
    loom::model(|| {
        let machine = Arc::new(RelayMachine::default());
        machine.left.store(3, Ordering::Relaxed);
        machine.counters[0].enter_local();
        let cores = machine.clone();
        // Sequential, as a chain is, regardless of steals. The model only checks the order of the
        // counts.
        let thread = thread::spawn(move || {
            cores.run(0, 0, Some(0));
            cores.run(0, 0, Some(1));
            cores.run(1, 1, None);
        });
        if machine.is_done() {
            assert_eq!(machine.left.load(Ordering::Relaxed), 0, "told that all is done");
        }
        thread.join().unwrap();
        assert!(machine.is_done());
    });
}

#[test]
fn count_includes_events_that_leave_the_core() {
    loom::model(|| {
        let counter = Arc::new(InFlight::default());
        // An item that stays.
        counter.enter_local();
        let (owner, thief) = (counter.clone(), counter.clone());
        let thread = thread::spawn(move || {
            owner.enter_local();
            thief.leave_remote();
        });
        assert!((1..=2).contains(&counter.len()));
        thread.join().unwrap();
        assert_eq!(counter.len(), 1);
        assert!(!counter.is_empty());
    });
}

/// The waiter sets the mark and looks. A leaving item, counted on another thread or by an owner
/// that then goes to sleep, is counted before the mark is read.
#[test]
fn leaving_event_wakes_the_waiter_for_room() {
    let goes: [fn(&InFlight) -> bool; 3] = [
        InFlight::leave_remote,
        // A post that exceeds the bound.
        |counter| {
            counter.enter_remote();
            counter.leave_remote() | counter.undo_enter()
        },
        |counter| {
            counter.leave_local();
            let parking = Parking::default();
            let sleep = parking.announce();
            let awaited = counter.is_awaited();
            parking.awake(sleep);
            awaited
        },
    ];
    for goes in goes {
        loom::model(move || {
            let counter = Arc::new(InFlight::default());
            counter.enter_local();
            let other = counter.clone();
            let thread = thread::spawn(move || goes(&other));
            counter.set_awaited(true);
            let sees = counter.is_empty();
            assert!(thread.join().unwrap() || sees, "nobody would tell");
        });
    }
}
