//! The count-token protocol: exclusion, a single token, nothing lost, order per producer; state
//! reachable only on the right color.

use super::{Journal, JournalNote, Within, color, run};
use crate::{BatchRun, ColorHead, ColorQueue, Colored, Event, Label, Run, Token};
use loom::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};
use std::{ops::ControlFlow, sync::Arc};

struct ColorWorld {
    color: Arc<ColorQueue>,
    journal: Journal,
    within: Arc<Within>,
}

impl ColorWorld {
    fn new() -> Arc<Self> {
        Arc::new(Self { color: color(), journal: Journal::default(), within: Arc::default() })
    }

    fn note(&self, producer: u8, number: u8) -> JournalNote {
        JournalNote { producer, number, journal: self.journal.clone(), within: self.within.clone() }
    }

    fn push(&self, producer: u8, number: u8) -> Option<Token> {
        self.color.push(Event::once(self.note(producer, number)))
    }

    /// Pushes `count` events. A producer that gets a token runs the token at once, as a core would.
    fn produce(&self, producer: u8, count: u8, batch: usize) {
        for number in 0..count {
            if let Some(token) = self.push(producer, number) {
                run_out(token, batch);
            }
        }
    }

    /// All `counts[p]` events of each producer ran once, in each producer's order.
    fn assert_complete(&self, counts: &[u8]) {
        let journal = self.journal.lock().unwrap();
        for (producer, &count) in counts.iter().enumerate() {
            let seen: Vec<u8> = journal
                .iter()
                .filter(|(p, _)| usize::from(*p) == producer)
                .map(|(_, number)| *number)
                .collect();
            assert_eq!(seen, (0..count).collect::<Vec<_>>(), "producer {producer}");
        }
        assert!(self.color.is_empty());
    }
}

fn run_out(mut token: Token, batch: usize) {
    while let (_, BatchRun::Again(again)) = run(token, batch) {
        token = again;
    }
}

/// Two producers, each running every token it gets. A token made twice would run the color twice at
/// once and trip loom's cell. A token not made would leave events behind.
#[test]
fn two_producers_run_the_posted_events() {
    loom::model(|| {
        let world = ColorWorld::new();
        let other = world.clone();
        let thread = thread::spawn(move || other.produce(1, 2, 1));
        world.produce(0, 2, 2);
        thread.join().unwrap();
        world.assert_complete(&[2, 2]);
    });
}

/// Every second attempt defers the first event.
#[test]
fn deferred_event_stays_first_in_its_color() {
    fn run_by_halves(mut token: Token) {
        for number in 0.. {
            let before = |_: &ColorHead, _: Label| match number % 2 {
                0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            };
            match token.run_watched(2, before, |_, _| ControlFlow::Continue(())).1 {
                BatchRun::Again(again) => token = again,
                _ => return,
            }
        }
    }
    loom::model(|| {
        let world = ColorWorld::new();
        let other = world.clone();
        let thread = thread::spawn(move || {
            (0..2).filter_map(|number| other.push(1, number)).for_each(run_by_halves);
        });
        world.push(0, 0).into_iter().for_each(run_by_halves);
        thread.join().unwrap();
        world.assert_complete(&[1, 2]);
    });
}

#[test]
fn three_producers_one_event_each() {
    loom::model(|| {
        let world = ColorWorld::new();
        let threads: Vec<_> = (1..3)
            .map(|producer| {
                let world = world.clone();
                thread::spawn(move || world.produce(producer, 1, 4))
            })
            .collect();
        world.produce(0, 1, 4);
        for thread in threads {
            thread.join().unwrap();
        }
        world.assert_complete(&[1, 1, 1]);
    });
}

struct Add(Arc<Colored<Vec<u8>>>, u8);

impl Run for Add {
    fn run(self) {
        self.0.with(|values| values.push(self.1));
    }
}

/// Only the token passes a color's state from core to core.
#[test]
fn colored_state_follows_the_token() {
    loom::model(|| {
        let color = color();
        let state = Arc::new(Colored::new(color.id(), Vec::new()));
        let (other_color, other_state) = (color.clone(), state.clone());
        let push = |color: &Arc<ColorQueue>, state: &Arc<Colored<Vec<u8>>>, value| {
            if let Some(token) = color.push(Event::once(Add(state.clone(), value))) {
                run_out(token, 8);
            }
        };
        let thread = thread::spawn(move || push(&other_color, &other_state, 2));
        push(&color, &state, 1);
        thread.join().unwrap();
        let state = Arc::into_inner(state).expect("events were dropped with their references");
        assert_eq!(state.into_inner().len(), 2);
    });
}

/// Events pushed while others are discarded are discarded or remain; none is lost or freed twice.
#[test]
fn discard_races_with_a_push() {
    loom::model(|| {
        let world = ColorWorld::new();
        let token = world.push(0, 0).expect("the first event makes the token");
        let other = world.clone();
        let thread = thread::spawn(move || other.push(1, 0));
        let discarded = token.discard();
        let left = thread.join().unwrap().map_or(0, Token::discard);
        assert_eq!(discarded + left, 2);
        assert_eq!(Arc::strong_count(&world.journal), 1, "every event was dropped");
    });
}

/// Posts the next event to the same color, until `last`.
struct PostNext {
    world: Arc<ColorWorld>,
    note: JournalNote,
    last: u8,
    told: Option<Arc<AtomicBool>>,
}

impl Run for PostNext {
    fn run(self) {
        let Self { world, note, last, told } = self;
        let number = note.number + 1;
        note.run();
        if number > last || told.as_ref().is_some_and(|told| !told.load(Ordering::Acquire)) {
            return;
        }
        let next = PostNext { note: world.note(0, number), world: world.clone(), last, told };
        assert!(world.color.push(Event::once(next)).is_none(), "the color runs");
    }
}

/// A color posts to itself while other threads post to the color: nothing is lost, nothing
/// overlaps, and each order is kept.
#[test]
fn a_color_that_goes_on_by_itself() {
    loom::model(|| {
        let world = ColorWorld::new();
        let other = world.clone();
        let thread = thread::spawn(move || other.produce(1, 2, 1));
        let first = PostNext { note: world.note(0, 0), world: world.clone(), last: 2, told: None };
        if let Some(token) = world.color.push(Event::once(first)) {
            run_out(token, 2);
        }
        thread.join().unwrap();
        world.assert_complete(&[3, 2]);
    });
}

/// A post of a color to itself comes behind every post that the poster knows of.
#[test]
fn nothing_that_was_seen_is_passed() {
    loom::model(|| {
        let world = ColorWorld::new();
        let told = Arc::new(AtomicBool::new(false));
        let first =
            PostNext { note: world.note(0, 0), world: world.clone(), last: 1, told: Some(told.clone()) };
        let token = world.color.push(Event::once(first)).expect("the first event makes the token");
        let other = world.clone();
        let thread = thread::spawn(move || {
            let token = other.push(1, 0);
            told.store(true, Ordering::Release);
            token.into_iter().for_each(|token| run_out(token, 2));
        });
        run_out(token, 2);
        thread.join().unwrap();
        let journal = world.journal.lock().unwrap();
        let at = |name| journal.iter().position(|&ran| ran == name);
        assert!(at((0, 1)).is_none_or(|own| at((1, 0)).is_some_and(|others| others < own)), "{journal:?}");
        assert!(world.color.is_empty() && journal.len() >= 2);
    });
}
