//! Stealing and placing: a token migrates while events are posted. Every event runs once, in order,
//! on the right core.

use super::{Journal, JournalNote, Within, run};
use crate::{
    BatchRun, ColorHead, ColorQueue, Cores, Event, PushOutcome, ReadyQueue, StealBatch, Token,
    fake_queue::FakeQueue,
};
use loom::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};
use std::sync::Arc;

/// Ready queues of several cores and a color that moves between the cores.
struct MigrationWorld {
    cores: Vec<ReadyQueue<FakeQueue>>,
    ended: AtomicBool,
    color: Arc<ColorQueue>,
    journal: Journal,
    within: Arc<Within>,
}

impl Cores for MigrationWorld {
    type Meta = ();
    type Ready = FakeQueue;

    fn ready(&self, core: u32) -> &ReadyQueue<FakeQueue> {
        &self.cores[core as usize]
    }

    fn have_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    fn put(&self, line: &mut FakeQueue, token: Token, entries: usize) {
        line.push(token, entries);
    }

    fn remove(&self, line: &mut FakeQueue, color: &ColorHead) -> Option<(Token, usize)> {
        line.remove(color)
    }

    fn put_entry(&self, line: &mut FakeQueue, color: &ColorHead) {
        line.push_entries(color, 1);
    }
}

impl MigrationWorld {
    fn new(cores: usize) -> Arc<Self> {
        Self::of((0..cores).map(|_| FakeQueue::default()))
    }

    fn of(lines: impl Iterator<Item = FakeQueue>) -> Arc<Self> {
        Arc::new(Self {
            cores: lines.map(|line| ReadyQueue::new(line, FakeQueue::len)).collect(),
            ended: AtomicBool::new(false),
            color: ColorQueue::new(0, ()),
            journal: Journal::default(),
            within: Arc::default(),
        })
    }

    fn post(&self, number: u8) {
        let (journal, within) = (self.journal.clone(), self.within.clone());
        match self.color.post(Event::once(JournalNote { producer: 0, number, journal, within })) {
            PushOutcome::First(token) => self.queue(token, 1),
            PushOutcome::Behind | PushOutcome::Own => self.queue_entry(&self.color),
        };
    }

    fn run_one(&self, core: u32) {
        if let Some(token) = self.ready(core).with(FakeQueue::pop) {
            assert_eq!(token.color().core(), core, "a token waits where its color is");
            if let (_, BatchRun::Again(token)) = run(token, 1) {
                self.queue(token, 0);
            }
        }
    }

    /// As `place`, by the functions that move several colors at once.
    fn send(&self, to: u16) {
        self.migrate_to(&self.color, to);
        let donor = self.color.core();
        let tokens = self.drain_migrating(donor, [&**self.color].into_iter());
        if let Some(token) = tokens.first() {
            let core = token.color().core();
            for token in self.queue_all(core, tokens) {
                self.queue(token, 0);
            }
        }
    }

    fn place(&self, to: u16) {
        if let Some((token, entries)) = self.request_migration(&self.color, to) {
            self.queue(token, entries);
        }
    }

    /// Core 1 steals from core 0.
    fn steal(&self) {
        let choose = |line: &mut FakeQueue, taking: &mut crate::StealBatchFill<'_>| {
            line.steal().into_iter().for_each(|(token, entries)| taking.add(token, entries));
        };
        StealBatch::new(1, 1).steal(self, 0, choose, |_| ());
    }

    /// Runs the remaining events and checks that every event ran once and in order.
    fn finish(&self, posted: u8) {
        while self.cores.iter().any(|core| !core.is_empty()) {
            (0..self.cores.len() as u32).for_each(|core| self.run_one(core));
        }
        let ran: Vec<_> = self.journal.lock().unwrap().iter().map(|(_, number)| *number).collect();
        assert_eq!(ran, (0..posted).collect::<Vec<_>>());
        assert!(self.color.is_empty());
    }
}

/// The owner posts and runs while a thief takes the color and runs it.
fn steals_beside_its_owner(world: &Arc<MigrationWorld>) {
    world.post(0);
    let thief = world.clone();
    let thread = thread::spawn(move || {
        thief.steal();
        thief.run_one(1);
    });
    world.post(1);
    world.run_one(0);
    world.post(2);
    thread.join().unwrap();
    world.finish(3);
}

#[test]
fn stolen_color_runs_each_event_once_in_order() {
    loom::model(|| steals_beside_its_owner(&MigrationWorld::new(2)));
}

/// No event runs without an entry. An entry queued where the color no longer is would mean an event
/// that never runs.
#[test]
fn entries_move_with_the_stolen_color() {
    loom::model(|| steals_beside_its_owner(&MigrationWorld::of((0..2).map(|_| FakeQueue::of_entries()))));
}

/// A placement requests the migration of a color that runs, waits or is empty, while a producer
/// posts to the color.
#[test]
fn migrating_color_is_never_on_two_cores() {
    loom::model(|| {
        let world = MigrationWorld::new(2);
        world.post(0);
        let (placer, receiver) = (world.clone(), world.clone());
        let placing = thread::spawn(move || placer.place(1));
        let receiving = thread::spawn(move || receiver.run_one(1));
        world.run_one(0);
        world.post(1);
        placing.join().unwrap();
        receiving.join().unwrap();
        world.finish(2);
        assert!(
            world.color.core() == 1 || world.color.is_migrating(),
            "a migration stays requested until it happens"
        );
    });
}

/// No other thread moves the color, so the color never stays on the old core until the next run
/// ends.
#[test]
fn queued_color_migrates_at_once() {
    loom::model(|| {
        let world = MigrationWorld::new(2);
        let poster = world.clone();
        let posting = thread::spawn(move || poster.post(0));
        world.place(1);
        posting.join().unwrap();
        assert_eq!((world.cores[0].len(), world.cores[1].len()), (0, 1));
        world.finish(1);
    });
}

/// The same, where the placement moves all waiting colors in groups.
#[test]
fn queued_group_migrates_at_once() {
    loom::model(|| {
        let world = MigrationWorld::new(2);
        let poster = world.clone();
        let posting = thread::spawn(move || poster.post(0));
        world.send(1);
        posting.join().unwrap();
        assert_eq!((world.cores[0].len(), world.cores[1].len()), (0, 1));
        world.finish(1);
    });
}

/// Two groups share a color that runs meanwhile, and all cores end. The color is never on two
/// cores, and no event is left.
#[test]
fn groups_that_cross_lose_nothing() {
    loom::model(|| {
        let world = MigrationWorld::new(2);
        world.post(0);
        let sender = world.clone();
        let sending = thread::spawn(move || {
            sender.send(1);
            sender.send(0);
        });
        world.run_one(0);
        world.post(1);
        sending.join().unwrap();
        world.finish(2);
    });
}

#[test]
fn the_last_migration_request_counts() {
    loom::model(|| {
        let world = MigrationWorld::new(3);
        let poster = world.clone();
        let posting = thread::spawn(move || poster.post(0));
        world.place(1);
        world.place(2);
        posting.join().unwrap();
        assert!(world.color.core() == 2 || world.color.is_migrating());
        world.finish(1);
    });
}

/// An event posted after all cores have ended is dropped, by the poster or by the thread that
/// clears the queues.
#[test]
fn nothing_is_left_in_a_queue_after_the_end() {
    loom::model(|| {
        let world = MigrationWorld::new(2);
        let poster = world.clone();
        let posting = thread::spawn(move || poster.post(0));
        world.ended.store(true, Ordering::Relaxed);
        (0..2).for_each(|core| world.clear(core, FakeQueue::pop));
        posting.join().unwrap();
        world.finish(0);
    });
}
