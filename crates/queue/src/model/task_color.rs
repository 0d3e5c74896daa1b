//! A task color: no post is lost, the color has one token, and the runs are ordered.

use super::{Within, run};
use crate::{BatchRun, ColorHead, Label, ScheduleOutcome, TaskBody, TaskCell, Token};
use loom::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};
use std::{pin::Pin, sync::Arc};

/// Like a task: a poster stores a flag and posts, and the run reads the flag.
#[derive(Default)]
struct FlaggedColor {
    raised: AtomicUsize,
    seen: AtomicUsize,
    dropped: AtomicUsize,
    within: Within,
}

type SharedColor = Pin<Arc<TaskCell<FlaggedColor>>>;

impl TaskBody for FlaggedColor {
    type Mark = ColorHead;
    type Slotted = ();
    type Output = ();

    fn run(event: &SharedColor) {
        // loom's cell reports any two accesses that the protocol does not order, not only
        // overlapping accesses.
        event.body.within.touch();
        let raised = event.body.raised.load(Ordering::Relaxed);
        event.body.seen.fetch_max(raised, Ordering::Relaxed);
    }

    fn wake(_: &SharedColor) {}

    fn dropped(event: &SharedColor) {
        event.body.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

fn posted() -> (SharedColor, Token) {
    let (event, token) = TaskCell::with_color(0, (), Label::default(), FlaggedColor::default(), ());
    (event.clone(), token)
}

/// An event whose color is empty.
fn event() -> SharedColor {
    let (event, token) = posted();
    run_out(token);
    event
}

fn run_out(token: Token) {
    let mut next = Some(token);
    while let Some(token) = next {
        next = match run(token, 1).1 {
            BatchRun::Again(token) => Some(token),
            _ => None,
        };
    }
}

/// Posts. A poster that gets the token runs the token at once, as a core would.
fn post(event: &SharedColor) {
    event.body.raised.fetch_add(1, Ordering::Relaxed);
    if let ScheduleOutcome::First(token) = event.schedule(Label::default) {
        run_out(token);
    }
}

fn post_owned(event: SharedColor) {
    event.body.raised.fetch_add(1, Ordering::Relaxed);
    match event.schedule_owned(Label::default) {
        ScheduleOutcome::First(token) => run_out(token),
        ScheduleOutcome::Again(event) => drop(event),
        ScheduleOutcome::Waits => {}
    }
}

fn counts(event: SharedColor) -> usize {
    // SAFETY: nothing moves the value out of the Arc.
    Arc::strong_count(&unsafe { Pin::into_inner_unchecked(event) })
}

#[test]
fn a_post_to_an_own_color_is_not_lost() {
    loom::model(|| {
        let event = event();
        let other = event.clone();
        let thread = thread::spawn(move || {
            post(&other);
            post_owned(other);
        });
        post(&event);
        thread.join().unwrap();
        assert_eq!(event.body.seen.load(Ordering::Relaxed), 3, "the last run saw every post");
        assert!(event.mark.is_empty());
        assert_eq!(counts(event), 1, "no count is left over");
    });
}

/// A new event, made as posted, runs on another thread, as on a thief. The run sees the maker's
/// later posts, or another run follows.
#[test]
fn a_new_event_runs_beside_a_post() {
    loom::model(|| {
        let (event, token) = posted();
        let thread = thread::spawn(move || run_out(token));
        post(&event);
        thread.join().unwrap();
        assert_eq!(event.body.seen.load(Ordering::Relaxed), 1, "the last run saw the post");
        assert!(event.mark.is_empty());
        assert_eq!(counts(event), 1, "no count is left over");
    });
}

#[test]
fn three_posters_of_one_event() {
    loom::model(|| {
        let event = event();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let other = event.clone();
                thread::spawn(move || post_owned(other))
            })
            .collect();
        post(&event);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(event.body.seen.load(Ordering::Relaxed), 3);
        assert_eq!(counts(event), 1);
    });
}

/// A post beside a discard is discarded with the event, or makes a new token.
#[test]
fn an_own_color_is_discarded_beside_a_post() {
    loom::model(|| {
        let event = event();
        let ScheduleOutcome::First(token) = event.schedule(Label::default) else {
            panic!("the color was empty")
        };
        let other = event.clone();
        let thread = thread::spawn(move || match other.schedule(Label::default) {
            ScheduleOutcome::First(token) => Some(token),
            _ => None,
        });
        let mut discarded = token.discard();
        discarded += thread.join().unwrap().map_or(0, Token::discard);
        assert_eq!(event.body.dropped.load(Ordering::Relaxed), discarded);
        assert!(matches!(discarded, 1 | 2) && event.mark.is_empty());
        assert_eq!(counts(event), 1);
    });
}
