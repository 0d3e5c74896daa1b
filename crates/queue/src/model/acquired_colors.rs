//! Holding: a held color runs nothing until the release, and a single thread reaches two held
//! colors. State that moves to another color is visible there.

use super::{Journal, JournalNote, Within, color, run};
use crate::{BatchRun, ColorQueue, Colored, Event, Run, Token, hold, token::run_together};
use loom::thread;
use std::sync::Arc;

struct Hold;

impl Run for Hold {
    fn run(self) {
        hold();
    }
}

fn run_out(mut next: Option<Token>) {
    while let Some(token) = next {
        next = match run(token, 4).1 {
            BatchRun::Again(token) => Some(token),
            _ => None,
        };
    }
}

#[test]
fn a_held_color_waits_for_its_release() {
    loom::model(|| {
        let (color, journal, within) = (color(), Journal::default(), Arc::<Within>::default());
        let note =
            |number| JournalNote { producer: 0, number, journal: journal.clone(), within: within.clone() };
        let token = color.push(Event::once(Hold)).unwrap();
        let BatchRun::Held(held) = run(token, 1).1 else { panic!("the event holds its color") };
        let (other, late) = (color.clone(), note(1));
        let thread = thread::spawn(move || run_out(other.push(Event::once(late))));
        let first = note(0);
        let held = [held];
        run_together(&held, || first.run());
        for held in held {
            if let BatchRun::Again(token) = held.release() {
                run_out(Some(token));
            }
        }
        thread.join().unwrap();
        assert_eq!(*journal.lock().unwrap(), [(0, 0), (0, 1)]);
    });
}

struct Leave(Arc<Colored<u32>>, Arc<ColorQueue>);

impl Run for Leave {
    fn run(self) {
        self.0.with(|value| *value += 1);
        self.0.move_to(self.1.id());
    }
}

/// Adds on the value's new color, if the value has arrived.
struct AddHere(Arc<Colored<u32>>, Arc<ColorQueue>);

impl Run for AddHere {
    fn run(self) {
        if self.0.color() == self.1.id() {
            self.0.with(|value| *value += 1);
        }
    }
}

#[test]
fn state_is_handed_over_with_its_name() {
    loom::model(|| {
        let (from, to) = (color(), color());
        let state = Arc::new(Colored::new(from.id(), 0));
        let (there, here) = (to.clone(), state.clone());
        let thread = thread::spawn(move || run_out(there.push(Event::once(AddHere(here, there.clone())))));
        run_out(from.push(Event::once(Leave(state.clone(), to.clone()))));
        // std's references, which loom does not see: the color must outlive the thread.
        thread.join().unwrap();
        drop(to);
        assert!(Arc::into_inner(state).unwrap().into_inner() >= 1);
    });
}
