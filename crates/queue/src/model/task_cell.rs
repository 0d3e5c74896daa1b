//! Repeating events: a post during a run is never lost, and the event never stands in a queue
//! twice.

use super::{color, run};
use crate::{AtomicQueuedMark, BatchRun, ColorQueue, TaskBody, TaskCell, Token};
use loom::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};
use std::{pin::Pin, sync::Arc};

/// Like a task: a poster stores a flag and posts, and the run reads the flag.
struct FlaggedCell {
    raised: AtomicUsize,
    seen: AtomicUsize,
}

impl TaskBody for FlaggedCell {
    type Mark = AtomicQueuedMark;
    type Slotted = ();
    type Output = ();

    fn run(event: &Pin<Arc<TaskCell<Self>>>) {
        let raised = event.body.raised.load(Ordering::Relaxed);
        event.body.seen.fetch_max(raised, Ordering::Relaxed);
    }

    fn wake(_: &Pin<Arc<TaskCell<Self>>>) {}
}

fn post(color: &Arc<ColorQueue>, event: &Pin<Arc<TaskCell<FlaggedCell>>>) {
    event.body.raised.fetch_add(1, Ordering::Relaxed);
    let Some(queued) = event.post() else { return };
    let mut next: Option<Token> = color.push(queued);
    while let Some(token) = next {
        next = match run(token, 1).1 {
            BatchRun::Again(token) => Some(token),
            _ => None,
        };
    }
}

#[test]
fn a_post_during_the_run_is_not_lost() {
    loom::model(|| {
        let color = color();
        let flagged = FlaggedCell { raised: AtomicUsize::new(0), seen: AtomicUsize::new(0) };
        let event = TaskCell::on_color(flagged, color.id(), ()).clone();
        let (other_color, other_event) = (color.clone(), event.clone());
        let thread = thread::spawn(move || post(&other_color, &other_event));
        post(&color, &event);
        thread.join().unwrap();
        assert_eq!(event.body.seen.load(Ordering::Relaxed), 2, "the last run saw every post");
        // SAFETY: nothing moves the value out of the Arc.
        assert_eq!(Arc::strong_count(&unsafe { Pin::into_inner_unchecked(event) }), 1);
    });
}
