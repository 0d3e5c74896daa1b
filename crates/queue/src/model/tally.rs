//! In-flight counters: while an item is left, or a running item may bring more, no thread learns
//! that all is done.

use crate::{Parking, Runs, Tally};
use loom::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

/// Two cores and a chain of events that alternate between the cores. Each event posts the next.
#[derive(Default)]
struct Machine {
    tallies: [Tally; 2],
    runs: [Runs; 2],
    left: AtomicU32,
}

impl Machine {
    /// Core `core` runs an event that was counted at `at`; the event that follows counts at `to`.
    fn run(&self, core: usize, at: usize, to: Option<usize>) {
        self.runs[core].begin();
        if at == core {
            self.tallies[at].gone_here();
        } else {
            self.tallies[at].gone_elsewhere();
        }
        if let Some(to) = to {
            if to == core { self.tallies[to].come_here() } else { self.tallies[to].come_elsewhere() }
        }
        self.left.fetch_sub(1, Ordering::Relaxed);
        self.runs[core].end();
    }

    fn is_done(&self) -> bool {
        Tally::all_done(self.tallies.iter(), self.runs.iter())
    }
}

#[test]
fn who_waits_for_the_end_is_not_told_too_early() {
    loom::model(|| {
        let machine = Arc::new(Machine::default());
        machine.left.store(3, Ordering::Relaxed);
        machine.tallies[0].come_here();
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
fn what_goes_elsewhere_is_not_missed_here() {
    loom::model(|| {
        let tally = Arc::new(Tally::default());
        // An item that stays.
        tally.come_here();
        let (owner, thief) = (tally.clone(), tally.clone());
        let thread = thread::spawn(move || {
            owner.come_here();
            thief.gone_elsewhere();
        });
        assert!((1..=2).contains(&tally.len()));
        thread.join().unwrap();
        assert_eq!(tally.len(), 1);
        assert!(!tally.is_empty());
    });
}

/// The waiter sets the mark and looks. A leaving item, counted on another thread or by an owner
/// that then goes to sleep, is counted before the mark is read.
#[test]
fn who_waits_for_fewer_is_not_missed() {
    let goes: [fn(&Tally) -> bool; 3] = [
        Tally::gone_elsewhere,
        // A post that exceeds the bound.
        |tally| {
            tally.come_elsewhere();
            tally.gone_elsewhere() | tally.take_back()
        },
        |tally| {
            tally.gone_here();
            let parking = Parking::default();
            let sleep = parking.announce();
            let awaited = tally.is_awaited();
            parking.awake(sleep);
            awaited
        },
    ];
    for goes in goes {
        loom::model(move || {
            let tally = Arc::new(Tally::default());
            tally.come_here();
            let other = tally.clone();
            let thread = thread::spawn(move || goes(&other));
            tally.set_awaited(true);
            let sees = tally.is_empty();
            assert!(thread.join().unwrap() || sees, "nobody would tell");
        });
    }
}
