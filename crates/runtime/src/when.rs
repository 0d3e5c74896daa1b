//! Several colors at once: code that runs while it holds all of these colors, so no event of any of
//! the colors runs meanwhile.
//!
//! Each color gets an event that holds the color. The last of these events runs the code and then
//! releases all colors. The queue's `multi_acquire.rs` argues that no meeting waits for ever; this
//! file chooses the core. Tested in `tests/meeting.rs`.

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
use vermeil_queue::{AcquiredColors, Event, HeldColor, Promise, Run, hold};
use vermeil_sched::{CoreIndex, Placement};

/// A meeting of several colors.
pub(crate) type Meeting = vermeil_queue::MultiAcquire<About, Purpose>;

/// The purpose of a meeting.
pub(crate) struct Purpose {
    body: Box<dyn FnOnce() + Send>,
    counted: Counted,
}

/// Counts the meeting as a posted event, so a draining runtime waits for the meeting.
struct Counted {
    core: u32,
    handle: Handle,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.handle.shared.leave(self.core);
    }
}

/// Cancels the task of a meeting, unless the task has ended before.
struct Ends<T: Send + 'static>(Promise<Result<T, TaskError>>);

impl<T: Send + 'static> Drop for Ends<T> {
    fn drop(&mut self) {
        self.0.complete(Err(TaskError::Cancelled));
    }
}

impl Handle {
    /// Runs `body` once on all of these colors at the same time: after every event that was posted
    /// on each color before, and without overlap with other events of these colors. `body` may
    /// access the state of each color.
    ///
    /// `body` runs on a core where each color may live, whatever the policy. A socket is used on
    /// the core that made it. A socket that `body` makes moves the colors to that core, unless
    /// policy `libasync` or `ncopy`, or `per-node` between nodes, forbids the move. If the colors
    /// already have sockets on several cores, `body` can use the sockets of a single core. A
    /// [free](Handle::free_color) color never delays a meeting.
    ///
    /// # Panics
    /// If a color belongs to another runtime, if `colors` is empty, or if no core is allowed for
    /// all colors.
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
        // All checks precede the first post, because a color that waits for a color without a post
        // would wait for ever.
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
        self.shared.meetings.acquire_all(colors.into_iter(), purpose, |color, meeting| {
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
struct Meet(AcquiredColors<About>, Purpose);

impl Run for Meet {
    fn run(self) {
        current(|core| core.meet(self.0, self.1));
    }
}

impl Core {
    /// A color waits for the meeting that its last event recorded.
    pub(crate) fn arrived(&self, held: HeldColor<About>) {
        let meeting = self.meeting.borrow_mut().take().expect("who holds a color says what for");
        let Some((colors, purpose)) = meeting.acquired(held) else { return };
        let place = self.place_of(colors.held());
        if place == self.index {
            self.meet(colors, purpose);
        } else {
            let there = purpose.counted.handle.new_color(Seat::Lives(Placement::Core(place)));
            there.push(TASKS, Event::once(Meet(colors, purpose)));
        }
    }

    /// The core for these colors: an allowed core with the sockets of the most colors, and of such
    /// cores this core, or else the nearest.
    fn place_of(&self, held: &[HeldColor<About>]) -> CoreIndex {
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

    fn meet(&self, colors: AcquiredColors<About>, Purpose { body, counted }: Purpose) {
        if colors.run(body) {
            add(&self.mine().counters.panics, 1);
        }
        if self.take_driver_use() {
            colors.held().iter().for_each(|held| self.keep_here(held));
        }
        colors.release(|token| self.shared.schedule(token, 0));
        drop(counted);
    }

    /// The meeting has made a socket here: the color stays with the socket, if its placement and
    /// the policy allow that.
    fn keep_here(&self, color: &HeldColor<About>) {
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
