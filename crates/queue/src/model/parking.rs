//! Parking: a token queued while the core goes to sleep is found, or the producer wakes the core.

use super::{Journal, JournalNote, color, run};
use crate::{Event, Parking, ReadyQueue, Token, fake_eventfd::FakeEventfd};
use loom::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};
use std::collections::VecDeque;

struct ParkingCore {
    ready: ReadyQueue<VecDeque<Token>>,
    parking: Parking,
    bell: FakeEventfd,
}

impl Default for ParkingCore {
    fn default() -> Self {
        let ready = ReadyQueue::new(VecDeque::new(), VecDeque::len);
        Self { ready, parking: Parking::default(), bell: FakeEventfd::default() }
    }
}

impl ParkingCore {
    fn post(&self, producer: u8, journal: &Journal) {
        let within = std::sync::Arc::default();
        let event = Event::once(JournalNote { producer, number: 0, journal: journal.clone(), within });
        let token = color().push(event).expect("the color is new");
        self.ready.with(|tokens| tokens.push_back(token));
        if self.parking.must_wake(|| 0) {
            self.bell.ring();
        }
    }

    /// The core's loop, until `count` events have run. loom reports a deadlock if a wake-up is
    /// lost.
    fn run(&self, count: usize) {
        let mut ran = 0;
        while ran < count {
            if let Some(token) = self.ready.with(VecDeque::pop_front) {
                ran += run(token, 1).0.events;
                continue;
            }
            let sleep = self.parking.announce();
            if self.ready.is_empty() {
                self.bell.wait();
            }
            self.parking.awake(sleep);
        }
    }
}

#[test]
fn parking_loses_no_wake_up() {
    loom::model(|| {
        let core = Arc::new(ParkingCore::default());
        let journal = Journal::default();
        let (poster, posted) = (core.clone(), journal.clone());
        let thread = thread::spawn(move || {
            poster.post(0, &posted);
            poster.post(0, &posted);
        });
        core.run(2);
        thread.join().unwrap();
        assert_eq!(journal.lock().unwrap().len(), 2);
    });
}

#[test]
fn parking_loses_no_wake_up_of_two_posters() {
    loom::model(|| {
        let core = Arc::new(ParkingCore::default());
        let journal = Journal::default();
        let threads: Vec<_> = (0..2)
            .map(|producer| {
                let (core, journal) = (core.clone(), journal.clone());
                thread::spawn(move || core.post(producer, &journal))
            })
            .collect();
        core.run(2);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(journal.lock().unwrap().len(), 2);
    });
}

/// A thread changes a word that the core reads before its sleep, like the word that names the next
/// monitor.
#[test]
fn sleeping_core_misses_no_changed_word() {
    loom::model(|| {
        let core = Arc::new(ParkingCore::default());
        let word = Arc::new(AtomicBool::new(false));
        let (writer, written) = (core.clone(), word.clone());
        let thread = thread::spawn(move || {
            written.store(true, Ordering::Relaxed);
            if writer.parking.may_miss_change() {
                writer.bell.ring();
            }
        });
        let sleep = core.parking.announce();
        if !word.load(Ordering::Relaxed) {
            core.bell.wait();
        }
        core.parking.awake(sleep);
        thread.join().unwrap();
    });
}
