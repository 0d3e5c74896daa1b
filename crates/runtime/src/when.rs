//! Several colors at once: code that runs when it has all of them, beside nothing of any.
//!
//! Each color gets an event that holds it; the one that comes last runs the code and lets all go on. Deadlock would need two
//! meetings that stand in different orders on two colors: all events of a meeting are queued under one lock, so meetings
//! stand in the same order everywhere (the two-phase queueing of Behaviour-Oriented Concurrency, Cheeseman et al., OOPSLA
//! 2023). Tested in `tests/model.rs`; the holding in the queue's `model/together.rs`.

use crate::{
    Color, Task,
    color::{About, Seat},
    core::{Core, current},
    error::TaskError,
    handle::Handle,
    kinds::TASKS,
    shared::add,
    task::{Outcome, run_contained},
};
use std::{
    mem,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};
use vermeil_queue::{Activation, Event, Held, Run, hold, run_together};
use vermeil_sched::{CoreIndex, Placement};

/// Colors that are to be had together, and what for.
pub(crate) struct Meeting {
    /// Colors that have not come yet.
    missing: AtomicUsize,
    held: Mutex<Vec<Held<About>>>,
    body: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// The core that one of the colors must run on.
    home: Option<CoreIndex>,
    /// The core among whose posted events it counts.
    counted: u32,
    handle: Handle,
}

impl Drop for Meeting {
    fn drop(&mut self) {
        self.handle.shared.leave(self.counted);
    }
}

/// Cancels what it was made for, unless that has ended before.
struct Ends<T>(Pin<Arc<Outcome<T>>>);

impl<T> Drop for Ends<T> {
    fn drop(&mut self) {
        self.0.complete(Err(TaskError::Cancelled));
    }
}

impl Handle {
    /// Runs `body` once on all of these colors at the same time: after everything posted on each before, beside nothing of
    /// any. State of each of them is reached in it.
    ///
    /// # Panics
    /// When a color belongs to another runtime, there is none, or two of them are tied to different cores: no core could run
    /// it.
    pub fn when<T: Send + 'static>(
        &self,
        colors: &[&Color],
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Task<T> {
        let mut colors = colors.to_vec();
        colors.sort_by_key(|color| color.id());
        colors.dedup_by_key(|color| color.id());
        assert!(!colors.is_empty(), "`when` needs a color");
        let homes: Vec<_> = colors.iter().filter_map(|color| home(color)).collect();
        assert!(homes.windows(2).all(|pair| pair[0] == pair[1]), "colors tied to different cores never meet");
        let outcome: Pin<Arc<Outcome<T>>> = Arc::pin(Outcome::default());
        let done = Ends(outcome.clone());
        // Counted as a posted event: a runtime that drains waits for it.
        let counted = colors[0].core().0;
        self.shared.enter(counted, usize::MAX);
        let meeting = Arc::new(Meeting {
            missing: AtomicUsize::new(colors.len()),
            held: Mutex::default(),
            body: Mutex::new(Some(Box::new(move || done.0.complete(run_contained(body))))),
            home: homes.first().copied(),
            counted,
            handle: self.clone(),
        });
        let _one_order = self.shared.meetings.lock().unwrap_or_else(PoisonError::into_inner);
        for color in colors {
            assert!(self.shared.is_of(&color.shared), "the color belongs to another runtime");
            color.push(TASKS, Event::once(Arrive(meeting.clone())));
        }
        Task::of(outcome)
    }
}

/// The core that a color cannot leave.
fn home(color: &Color) -> Option<CoreIndex> {
    (!color.queue.about.may_move()).then(|| color.core())
}

/// Holds its color for a meeting.
struct Arrive(Arc<Meeting>);

impl Run for Arrive {
    fn run(self) {
        current(|core| *core.meeting.borrow_mut() = Some(self.0));
        hold();
    }
}

/// The meeting, on the core where it must take place.
struct Meet(Arc<Meeting>);

impl Run for Meet {
    fn run(self) {
        current(|core| core.meet(&self.0));
    }
}

impl Core {
    /// A color stands still for the meeting that its last event noted.
    pub(crate) fn arrived(&self, held: Held<About>) {
        let meeting = self.meeting.borrow_mut().take().expect("who holds a color says what for");
        meeting.held.lock().expect("nothing panics under this lock").push(held);
        // The last to come sees what the others have put there.
        if meeting.missing.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        match meeting.home {
            Some(home) if home != self.index => {
                let there = meeting.handle.new_color(Seat::Lives(Placement::Core(home)));
                there.push(TASKS, Event::once(Meet(meeting)));
            }
            _ => self.meet(&meeting),
        }
    }

    fn meet(&self, meeting: &Meeting) {
        let held = mem::take(&mut *meeting.held.lock().expect("nothing panics under this lock"));
        let body = meeting.body.lock().expect("nothing panics under this lock").take();
        let (panicked, colors) = run_together(held, body.expect("a meeting takes place once"));
        if panicked {
            add(&self.mine().counters.panics, 1);
        }
        for color in colors {
            if let Activation::Again(token) = color {
                self.shared.schedule(token, 0);
            }
        }
    }
}
