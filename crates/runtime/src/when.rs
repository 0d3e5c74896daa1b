//! Several colors at once: code that runs when it has all of them, beside nothing of any.
//!
//! Each color gets an event that holds it; the one that comes last runs the code and lets all go on. Who waits for whom, and why none does
//! for ever, is the queue's `meeting.rs`; here is where it takes place. Tested in `tests/meeting.rs`.

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
use std::sync::Arc;
use vermeil_queue::{Event, Held, Promise, Run, Together, hold};
use vermeil_sched::{CoreIndex, Placement};

/// Colors that are to be had together.
pub(crate) type Meeting = vermeil_queue::Meeting<About, Purpose>;

/// What a meeting is for.
pub(crate) struct Purpose {
    body: Box<dyn FnOnce() + Send>,
    counted: Counted,
}

/// That it is to take place, counted as an event that was posted: a runtime that drains waits for it.
struct Counted {
    core: u32,
    handle: Handle,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.handle.shared.leave(self.core);
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
    #[track_caller]
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
        let counted = Counted { core: colors[0].core().0, handle: self.clone() };
        self.shared.enter(counted.core, usize::MAX);
        let purpose = Purpose { body: Box::new(move || done.0.complete(run_contained(body))), counted };
        self.shared.meetings.call(colors.into_iter(), purpose, |color, meeting| {
            color.push(TASKS, Event::once(Arrive(meeting)));
        });
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
struct Meet(Together<About>, Purpose);

impl Run for Meet {
    fn run(self) {
        current(|core| core.meet(self.0, self.1));
    }
}

impl Core {
    /// A color stands still for the meeting that its last event noted.
    pub(crate) fn arrived(&self, held: Held<About>) {
        let meeting = self.meeting.borrow_mut().take().expect("who holds a color says what for");
        let Some((colors, purpose)) = meeting.arrive(held) else { return };
        let place = self.place_of(colors.held());
        if place == self.index {
            self.meet(colors, purpose);
        } else {
            let there = purpose.counted.handle.new_color(Seat::Lives(Placement::Core(place)));
            there.push(TASKS, Event::once(Meet(colors, purpose)));
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

    fn meet(&self, colors: Together<About>, Purpose { body, counted }: Purpose) {
        if colors.run(body) {
            add(&self.mine().counters.panics, 1);
        }
        if self.take_driver_use() {
            colors.held().iter().for_each(|held| self.keep_here(held));
        }
        colors.release(|token| self.shared.schedule(token, 0));
        drop(counted);
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
