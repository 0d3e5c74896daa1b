//! Behaviour that needs no interleavings: order, batches, drops, panics, misuse of colored state.

use crate::{Activation, ColorQueue, Colored, Event, ReadyQueue, Repeat, Repeating, Run, current_color};
use proptest::prelude::*;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
};

fn color() -> Arc<ColorQueue> {
    ColorQueue::new(0)
}

struct Do<F>(F);

impl<F: FnOnce() + Send + 'static> Run for Do<F> {
    fn run(self) {
        (self.0)();
    }
}

fn event(f: impl FnOnce() + Send + 'static) -> Event {
    Event::once(Do(f))
}

proptest! {
    /// Any mix of pushes and batched runs keeps the order of the pushes and runs each event once.
    #[test]
    fn first_in_first_out_whatever_the_batches(ops in prop::collection::vec(0u8..8, 0..200)) {
        let color = color();
        let ran = Arc::new(Mutex::new(Vec::new()));
        let (mut pushed, mut token) = (0u32, None);
        for op in ops {
            if op < 4 {
                let (number, ran) = (pushed, ran.clone());
                let new = color.push(event(move || ran.lock().unwrap().push(number)));
                prop_assert_eq!(new.is_some(), token.is_none(), "a token exists while events are queued");
                token = token.or(new);
                pushed += 1;
            } else if let Some(held) = token.take() {
                let before = color.len();
                let (did, next) = crate::Token::run(held, usize::from(op));
                prop_assert_eq!(did.events, before.min(usize::from(op)));
                token = match next { Activation::Again(again) => Some(again), Activation::Empty => None };
            }
        }
        while let Some(held) = token.take() {
            if let (_, Activation::Again(again)) = held.run(3) { token = Some(again); }
        }
        prop_assert_eq!(&*ran.lock().unwrap(), &(0..pushed).collect::<Vec<_>>());
    }
}

#[test]
fn a_panicking_event_is_counted_and_the_color_goes_on() {
    let color = color();
    let ran = Arc::new(Mutex::new(0));
    let token = color.push(event(|| panic!("planted"))).unwrap();
    let after = ran.clone();
    assert!(color.push(event(move || *after.lock().unwrap() += 1)).is_none());
    let (did, next) = token.run(10);
    assert_eq!((did.events, did.panics), (2, 1));
    assert!(matches!(next, Activation::Empty));
    assert_eq!(*ran.lock().unwrap(), 1);
    assert_eq!(current_color(), None);
}

#[test]
fn what_is_not_run_is_dropped_with_its_color() {
    let held = Arc::new(());
    let color = color();
    for _ in 0..3 {
        let held = held.clone();
        // The token's own reference is what a queue would hold; drop it here to end the color.
        drop(color.push(event(move || drop(held))));
    }
    assert_eq!(Arc::strong_count(&held), 4);
    drop(color);
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn an_event_may_push_to_its_own_color() {
    let color = color();
    let again = color.clone();
    let ran = Arc::new(Mutex::new(false));
    let done = ran.clone();
    let token = color
        .push(event(move || {
            assert!(again.push(event(move || *done.lock().unwrap() = true)).is_none(), "the token is held");
        }))
        .unwrap();
    let (_, Activation::Again(token)) = token.run(1) else { panic!("an event remains") };
    assert!(matches!(token.run(1).1, Activation::Empty));
    assert!(*ran.lock().unwrap());
}

struct Counted(Mutex<u32>);

impl Repeat for Counted {
    fn run(event: &Arc<Repeating<Self>>) {
        *event.body.0.lock().unwrap() += 1;
    }

    fn wake(_: &Arc<Repeating<Self>>) {}
}

#[test]
fn a_repeating_event_stands_in_one_queue() {
    let color = color();
    let repeating = Repeating::new(Counted(Mutex::new(0)));
    let token = color.push(repeating.post().expect("not posted yet")).unwrap();
    assert!(repeating.post().is_none(), "already posted");
    assert!(matches!(token.run(9).1, Activation::Empty));
    drop(repeating.post().expect("it ran, so it can be posted again"));
    assert!(repeating.post().is_some(), "a cancelled post can be repeated");
    assert_eq!(*repeating.body.0.lock().unwrap(), 1);
    assert_eq!(Arc::strong_count(&repeating), 1);
}

#[test]
fn colored_state_refuses_strangers_and_re_entry() {
    let color = color();
    let state = Arc::new(Colored::new(color.id(), 1));
    let off_color = catch_unwind(AssertUnwindSafe(|| state.with(|value| *value)));
    assert!(off_color.is_err());
    let inside = state.clone();
    let token = color
        .push(event(move || {
            inside.with(|value| *value += 1);
            let twice = catch_unwind(AssertUnwindSafe(|| inside.with(|_| inside.with(|value| *value))));
            assert!(twice.is_err());
            inside.with(|value| *value += 1);
        }))
        .unwrap();
    assert_eq!(token.run(1).0.panics, 0);
    assert_eq!(Arc::into_inner(state).unwrap().into_inner(), 3);
}

/// The names were the callers' to give: two colors of one name ran at once and both reached the same state.
#[test]
fn colored_state_refuses_every_other_color() {
    let (mine, other) = (color(), color());
    let state = Arc::new(Colored::new(mine.id(), 0));
    let inside = state.clone();
    let token = other.push(event(move || inside.with(|value| *value += 1))).unwrap();
    assert_eq!(token.run(1).0.panics, 1);
    assert_eq!(Arc::into_inner(state).unwrap().into_inner(), 0);
}

#[test]
fn ready_tokens_come_in_order() {
    let ready = ReadyQueue::default();
    assert!(ready.pop().is_none());
    let colors = [color(), color(), color()];
    for color in &colors {
        ready.push(color.push(event(|| ())).unwrap());
    }
    assert_eq!(ready.len(), 3);
    for color in &colors {
        assert_eq!(ready.pop().unwrap().color().id(), color.id());
    }
    assert!(ready.is_empty());
}
