//! The LIFO slot: the core or a thief gets the token, never both and never neither.

use super::{Journal, Note, Within, run};
use crate::{Activation, ColorQueue, Event, Kept};
use loom::thread;
use std::sync::Arc;

/// Takes the kept token and runs the color until the color is empty.
fn run_kept(kept: &Kept) {
    let mut next = kept.take();
    while let Some(token) = next {
        next = match run(token, 1).1 {
            Activation::Again(token) => Some(token),
            _ => None,
        };
    }
}

#[test]
fn a_kept_token_is_taken_once() {
    loom::model(|| {
        let (journal, within) = (Journal::default(), Arc::new(Within::default()));
        let (color, kept) = (ColorQueue::new(0, ()), Arc::new(Kept::default()));
        let thief = {
            let kept = kept.clone();
            thread::spawn(move || run_kept(&kept))
        };
        for number in 0..2 {
            let note = Note { producer: 0, number, journal: journal.clone(), within: within.clone() };
            // If the push makes no token, the thief runs the color with this event.
            if let Some(token) = color.push(Event::once(note)) {
                kept.keep(token);
                run_kept(&kept);
            }
        }
        thief.join().unwrap();
        assert!(kept.is_empty() && color.is_empty());
        assert_eq!(*journal.lock().unwrap(), [(0, 0), (0, 1)]);
    });
}
