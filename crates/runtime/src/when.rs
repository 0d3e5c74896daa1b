//! Several colors at once: code that runs when it has all of them, beside nothing of any.
//!
//! Each color gets an event that holds it; the one that comes last runs the code and lets all go on. Deadlock would need two
//! meetings that stand in different orders on two colors: all events of a meeting are queued under one lock, so meetings
//! stand in the same order everywhere (the two-phase queueing of Behaviour-Oriented Concurrency, Cheeseman et al., OOPSLA
//! 2023). Tested in `tests/meeting.rs`; the holding in the queue's `model/together.rs`.

use crate::{
    Color, Task,
    color::{About, Seat},
    core::{Core, current},
    error::TaskError,
    handle::Handle,
    kinds::TASKS,
    shared::add,
    task::run_contained,
};
use std::{
    mem,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};
use vermeil_queue::{Activation, Event, Held, Promise, Run, hold, run_together};
use vermeil_sched::{CoreIndex, Placement};

/// Colors that are to be had together, and what for.
pub(crate) struct Meeting {
    /// Colors that have not come yet.
    missing: AtomicUsize,
    held: Mutex<Vec<Held<About>>>,
    body: Mutex<Option<Box<dyn FnOnce() + Send>>>,
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
struct Ends<T: Send + 'static>(Promise<Result<T, TaskError>>);

impl<T: Send + 'static> Drop for Ends<T> {
    fn drop(&mut self) {
        self.0.complete(Err(TaskError::Cancelled));
    }
}

impl Handle {
    /// Runs `body` once on all of these colors at the same time: after everything posted on each before, beside nothing of
    /// any. State of each of them is reached in it.
    ///
    /// It runs on a core where each of them may live, whatever the policy. Sockets are used on the core that made them: a socket
    /// that it makes takes its colors there, unless policy `libasync`, or `ncopy` between nodes, has them stay; and where those have
    /// sockets on several cores already, those of one can be used. A [free](Handle::free_color) color has nothing to wait for.
    ///
    /// # Panics
    /// When a color belongs to another runtime, there is none, or no core is allowed to all of them.
    pub fn when<T: Send + 'static>(
        &self,
        colors: &[&Color],
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Task<T> {
        let mut colors: Vec<_> = colors.iter().map(|color| color.for_one()).collect();
        colors.sort_by_key(|color| color.id());
        colors.dedup_by_key(|color| color.id());
        assert!(!colors.is_empty(), "`when` needs a color");
        // All of it before the first is queued: a color that waits for one that is not, waits for ever.
        assert!(
            colors.iter().all(|color| self.shared.is_of(&color.shared)),
            "a color belongs to another runtime"
        );
        let allows = |core| colors.iter().all(|color| color.queue.about.allows(core));
        assert!(self.shared.indices().any(allows), "colors that no core may run together never meet");
        let (promise, join) = Promise::new();
        let done = Ends(promise);
        // Counted as a posted event: a runtime that drains waits for it.
        let counted = colors[0].core().0;
        self.shared.enter(counted, usize::MAX);
        let meeting = Arc::new(Meeting {
            missing: AtomicUsize::new(colors.len()),
            held: Mutex::default(),
            body: Mutex::new(Some(Box::new(move || done.0.complete(run_contained(body))))),
            counted,
            handle: self.clone(),
        });
        let _one_order = self.shared.meetings.lock().unwrap_or_else(PoisonError::into_inner);
        for color in colors {
            color.push(TASKS, Event::once(Arrive(meeting.clone())));
        }
        Task::of(join)
    }
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
        let place = self.place_of(&meeting.held.lock().expect("nothing panics under this lock"));
        if place == self.index {
            self.meet(&meeting);
        } else {
            let there = meeting.handle.new_color(Seat::Lives(Placement::Core(place)));
            there.push(TASKS, Event::once(Meet(meeting)));
        }
    }

    /// Where all of these may run: where the sockets of most are, and of such cores this one, or else the nearest.
    fn place_of(&self, held: &[Held<About>]) -> CoreIndex {
        let allowed = |core| held.iter().all(|held| held.color().about.allows(core));
        let elsewhere = |core: CoreIndex| {
            let bound = held.iter().map(|held| held.color()).filter(|color| color.about.is_bound());
            bound.filter(|color| color.core() != core.0).count()
        };
        if allowed(self.index) && elsewhere(self.index) == 0 {
            return self.index;
        }
        let far = |core: CoreIndex| (core != self.index, self.shared.layout.distance(self.index, core));
        let place = self.shared.indices().filter(|core| allowed(*core));
        place.min_by_key(|core| (elsewhere(*core), far(*core))).expect("looked for when it was called")
    }

    fn meet(&self, meeting: &Meeting) {
        let held = mem::take(&mut *meeting.held.lock().expect("nothing panics under this lock"));
        let body = meeting.body.lock().expect("nothing panics under this lock").take();
        if run_together(&held, body.expect("a meeting takes place once")) {
            add(&self.mine().counters.panics, 1);
        }
        if self.take_driver_use() {
            held.iter().for_each(|held| self.keep_here(held));
        }
        for color in held {
            if let Activation::Again(token) = color.release() {
                self.shared.schedule(token, 0);
            }
        }
    }

    /// What has met has made a socket here: the color stays with it, where it may and the policy has it come.
    fn keep_here(&self, color: &Held<About>) {
        let about = &color.color().about;
        let core = CoreIndex(color.color().core());
        let comes = core == self.index || self.shared.sends_colors(core, self.index);
        if comes && about.allows(self.index) && !about.is_bound() {
            about.bind_to_driver();
            if core != self.index {
                self.shared.count_move(about.handler());
            }
            color.move_to(self.index.0);
        }
    }
}
