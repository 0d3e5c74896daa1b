//! Stealing and handing over: a token that changes cores while events are posted runs everything once, in order.

use super::{Journal, Note, Within, run};
use crate::{Activation, ColorQueue, Event, ReadyQueue, Token};
use loom::thread;
use std::{collections::VecDeque, sync::Arc};

/// Two cores' queues and one color that moves between them.
struct World {
    cores: [ReadyQueue<VecDeque<Token>>; 2],
    color: Arc<ColorQueue>,
    journal: Journal,
    within: Arc<Within>,
}

impl World {
    fn new() -> Arc<Self> {
        let core = || ReadyQueue::new(VecDeque::new(), VecDeque::len);
        Arc::new(Self {
            cores: [core(), core()],
            color: ColorQueue::new(0, ()),
            journal: Journal::default(),
            within: Arc::default(),
        })
    }

    /// As the runtime does: the token goes to the queue of the core that the color names.
    fn schedule(&self, token: Token) {
        let core = token.color().core() as usize;
        self.cores[core].with(|tokens| tokens.push_back(token));
    }

    fn post(&self, producer: u8, number: u8) {
        let (journal, within) = (self.journal.clone(), self.within.clone());
        if let Some(token) = self.color.push(Event::once(Note { producer, number, journal, within })) {
            self.schedule(token);
        }
    }

    fn run_one(&self, core: usize) {
        if let Some(token) = self.cores[core].with(VecDeque::pop_front)
            && let (_, Activation::Again(token)) = run(token, 1)
        {
            self.schedule(token);
        }
    }

    /// The thief's step: take from the victim, make the color ours, queue it here.
    fn steal(&self, thief: usize) {
        if let Some(Some(token)) = self.cores[1 - thief].try_with(VecDeque::pop_front) {
            token.move_to(thief as u32);
            self.schedule(token);
        }
    }

    /// Runs what is left and looks whether everything ran once and in order.
    fn finish(&self, posted: u8) {
        while self.cores.iter().any(|core| !core.is_empty()) {
            self.run_one(0);
            self.run_one(1);
        }
        let ran: Vec<_> = self.journal.lock().unwrap().iter().map(|(_, number)| *number).collect();
        assert_eq!(ran, (0..posted).collect::<Vec<_>>());
        assert!(self.color.is_empty());
    }
}

/// The owner posts and runs while a thief takes the color and runs it.
#[test]
fn a_color_that_is_stolen_runs_everything_once_and_in_order() {
    loom::model(|| {
        let world = World::new();
        world.post(0, 0);
        let thief = world.clone();
        let thread = thread::spawn(move || {
            thief.steal(1);
            thief.run_one(1);
        });
        world.post(0, 1);
        world.run_one(0);
        world.post(0, 2);
        thread.join().unwrap();
        world.finish(3);
    });
}

/// A placement hands a color over: its holder lets go and passes it on between two events, while a third thread posts.
#[test]
fn a_color_that_is_handed_over_is_never_on_two_cores() {
    loom::model(|| {
        let world = World::new();
        world.post(0, 0);
        let (poster, receiver) = (world.clone(), world.clone());
        let posting = thread::spawn(move || poster.post(0, 1));
        let receiving = thread::spawn(move || receiver.run_one(1));
        if let Some(token) = world.cores[0].with(VecDeque::pop_front) {
            match run(token, 1).1 {
                Activation::Again(token) => {
                    token.move_to(1);
                    world.schedule(token);
                }
                _ => world.run_one(0),
            }
        }
        posting.join().unwrap();
        receiving.join().unwrap();
        world.finish(2);
    });
}
