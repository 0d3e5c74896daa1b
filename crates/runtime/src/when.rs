//! Several colors at once: code that runs while it holds all of these colors, so no event of any of
//! the colors runs meanwhile.
//!
//! Each color gets an event that holds the color. The last of these events runs the code and then
//! releases all colors. The queue's `multi_acquire.rs` argues that no acquisition waits for ever;
//! this file chooses the core. Tested in `tests/acquisition.rs`.

use crate::{
    Color, Task,
    acquisition::{AcquireAction, CountedAcquire, RuntimeAcquire},
    affinity::Affinity,
    color_meta::ColorMeta,
    core::{Core, current},
    counters::add,
    error::TaskError,
    handle::Handle,
    kind_table::TASKS,
    task::run_contained,
};
use std::sync::Arc;
use vermeil_queue::{AcquiredColors, Event, HeldColor, Promise, Run, hold};
use vermeil_sched::{CoreIndex, Placement};

/// Cancels the task of an acquisition, unless the task has ended before.
struct CancelOnEnd<T: Send + 'static>(Promise<Result<T, TaskError>>);

impl<T: Send + 'static> Drop for CancelOnEnd<T> {
    fn drop(&mut self) {
        self.0.complete(Err(TaskError::Cancelled));
    }
}

impl Handle {
    /// Runs `body` once on all of these colors at the same time: after every event that was posted
    /// on each color before, and without overlap with other events of these colors. `body` may
    /// access the state of each color.
    ///
    /// `body` runs on a core where each color may live, whatever the policy. `body` cannot wait, so
    /// a socket of another core is not at hand there: a task uses the socket instead. A
    /// [concurrent](Handle::concurrent_color) color never delays an acquisition.
    ///
    /// [`Task::cancel`] keeps a `body` that has not begun from running.
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
        let allows = |core| colors.iter().all(|color| color.queue.meta.allows(core));
        assert!(self.shared.indices().any(allows), "colors that no core may run together never meet");
        let (promise, join) = Promise::new();
        let done = CancelOnEnd(promise);
        let counted = CountedAcquire { core: colors[0].core().0, share: self.shared.clone() };
        self.shared.enter(counted.core, usize::MAX);
        let run = move || {
            if done.0.is_cancelled() {
                drop(body);
            } else {
                done.0.complete(run_contained(body));
            }
            // The end of `done` completes the task of a cancelled acquisition.
        };
        let action = AcquireAction { body: Box::new(run), counted };
        self.shared.colors.acquisitions.acquire_all(colors.into_iter(), action, |color, acquisition| {
            color.push(TASKS, Event::once(HoldForAcquire(acquisition)));
        });
        Task::of(join)
    }
}

/// Holds its color for an acquisition.
struct HoldForAcquire(Arc<RuntimeAcquire>);

impl Run for HoldForAcquire {
    fn run(self) {
        current(|core| *core.run.acquisition.borrow_mut() = Some(self.0));
        hold();
    }
}

/// The acquisition, on the core where it must take place.
struct RunAcquired(AcquiredColors<ColorMeta>, AcquireAction);

impl Run for RunAcquired {
    fn run(self) {
        current(|core| core.run_acquired(self.0, self.1));
    }
}

impl Core {
    /// A color waits for the acquisition that its last event recorded.
    pub(crate) fn acquired(&self, held: HeldColor<ColorMeta>) {
        let acquisition = self.run.acquisition.borrow_mut().take().expect("who holds a color says what for");
        let Some((colors, action)) = acquisition.acquired(held) else { return };
        let place = self.place_of(colors.held());
        if place == self.index {
            self.run_acquired(colors, action);
        } else {
            let there = action.counted.share.color(Affinity::Placed(Placement::Core(place)));
            there.push(TASKS, Event::once(RunAcquired(colors, action)));
        }
    }

    /// The core for these colors: this core if it is allowed, or else the nearest allowed core.
    fn place_of(&self, held: &[HeldColor<ColorMeta>]) -> CoreIndex {
        let allowed = |core: &CoreIndex| held.iter().all(|held| held.color().meta.allows(*core));
        let layout = &self.shared.settings.layout;
        let far = |core: &CoreIndex| (*core != self.index, layout.distance(self.index, *core));
        self.shared.indices().filter(allowed).min_by_key(far).expect("looked for when it was called")
    }

    fn run_acquired(
        &self,
        colors: AcquiredColors<ColorMeta>,
        AcquireAction { body, counted }: AcquireAction,
    ) {
        if colors.run(body) {
            add(&self.mine().counters.panics, 1);
        }
        colors.release(|token| self.shared.schedule(token, 0));
        drop(counted);
    }
}
