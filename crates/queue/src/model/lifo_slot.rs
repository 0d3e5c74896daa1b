//! The LIFO slot: the core or a thief gets the token, never both and never neither.

use super::{Journal, JournalNote, Within, run};
use crate::{BatchRun, ColorQueue, Event, LifoSlot};
use loom::thread;
use std::sync::Arc;

/// Takes the kept token and runs the color until the color is empty.
fn run_slot(slot: &LifoSlot) {
    let mut next = slot.take();
    while let Some(token) = next {
        next = match run(token, 1).1 {
            BatchRun::Again(token) => Some(token),
            _ => None,
        };
    }
}

#[test]
fn lifo_slot_gives_its_token_once() {
    loom::model(|| {
        let (journal, within) = (Journal::default(), Arc::new(Within::default()));
        let (color, slot) = (ColorQueue::new(0, ()), Arc::new(LifoSlot::default()));
        let thief = {
            let slot = slot.clone();
            thread::spawn(move || run_slot(&slot))
        };
        for number in 0..2 {
            let note = JournalNote { producer: 0, number, journal: journal.clone(), within: within.clone() };
            // If the push makes no token, the thief runs the color with this event.
            if let Some(token) = color.push(Event::once(note)) {
                slot.put(token);
                run_slot(&slot);
            }
        }
        thief.join().unwrap();
        assert!(slot.is_empty() && color.is_empty());
        assert_eq!(*journal.lock().unwrap(), [(0, 0), (0, 1)]);
    });
}
