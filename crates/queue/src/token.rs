//! The token: the right to run a color.
//!
//! Code that moves colors knows only the [`ColorHead`], and shares a color of either kind through a
//! [`ColorRef`].
//! The holder's side of the count-token protocol is here.
//!
//! An event may hold its color. The token then stands still, in a [`HeldColor`], until the owner of
//! the `HeldColor` runs a closure on the color and releases the color. Acquiring several colors at
//! once uses this. A `HeldColor` is dropped only at the end of a runtime, and then drops the events
//! behind it, as that end does.
//!
//! Leaves out where a token waits (`ready.rs`), the migration of tokens (`migration.rs`) and the
//! choice of thieves (the scheduler). Checked with the files named.
#![allow(unsafe_code)]

use crate::{
    color_head::{ColorHead, HeadKind, TaskColorVtable},
    color_queue::ColorQueue,
    colored,
    discard::{OutermostDiscard, discard_later},
    event::Label,
    queued_events::{QueuedEvents, counting},
    sync::{Ordering, panics},
};
use std::{
    mem::ManuallyDrop,
    ops::{ControlFlow, Deref},
    ptr::NonNull,
    sync::Arc,
};

/// A reference to a color of either kind.
pub struct ColorRef<D: 'static = ()>(NonNull<ColorHead<D>>);

// SAFETY: the reference is an `Arc` of a color queue or of an event, which are `Send` and `Sync` if
// `D` is.
unsafe impl<D: Send + Sync> Send for ColorRef<D> {}
// SAFETY: as above.
unsafe impl<D: Send + Sync> Sync for ColorRef<D> {}

/// The right to run a color's events: at most one token exists per color.
pub struct Token<D: 'static = ()>(ColorRef<D>);

/// The state of a token after a run.
pub enum BatchRun<D: 'static = ()> {
    /// Events remain: the token must go back to a ready queue.
    Again(Token<D>),
    /// The color is empty; the next push makes a new token.
    Empty,
    /// The last event that ran holds the color: no event of the color runs until the release.
    Held(HeldColor<D>),
}

/// A color that stands still until [`HeldColor::release`]. A drop instead drops every event of the
/// color, as [`Token::discard`] does.
#[must_use = "a held color that is dropped drops its events"]
pub struct HeldColor<D: 'static = ()>(
    /// `None` only after the release.
    Option<Token<D>>,
);

/// The counts of a batch run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchCounts {
    /// Events that ran, including events that panicked.
    pub events: usize,
    /// Events that ended in a panic.
    pub panics: usize,
}

impl<D> ColorRef<D> {
    pub(crate) fn of(queue: Arc<ColorQueue<D>>) -> Self {
        // `into_raw` is never null; the head is the first field of a `repr(C)` struct.
        Self(NonNull::new(Arc::into_raw(queue).cast_mut().cast()).expect("an Arc is never null"))
    }

    /// # Safety
    /// The pointer reaches the whole object that its kind names, and a reference count goes with
    /// the pointer.
    pub(crate) unsafe fn from_raw(head: NonNull<ColorHead<D>>) -> Self {
        Self(head)
    }

    /// The pointer, with its reference count.
    pub(crate) fn into_raw(self) -> NonNull<ColorHead<D>> {
        ManuallyDrop::new(self).0
    }

    fn queue(&self) -> *const ColorQueue<D> {
        self.0.as_ptr().cast_const().cast()
    }
}

impl<D> Deref for ColorRef<D> {
    type Target = ColorHead<D>;

    fn deref(&self) -> &ColorHead<D> {
        // SAFETY: this reference's count keeps the head alive, and no thread has the head mutably.
        unsafe { self.0.as_ref() }
    }
}

impl<D> Clone for ColorRef<D> {
    fn clone(&self) -> Self {
        // SAFETY: the maker of the object around the head wrote the kind, and this reference has a
        // count of that object.
        unsafe {
            match self.kind {
                HeadKind::Queue => Arc::increment_strong_count(self.queue()),
                HeadKind::TaskColor(vtable) => (vtable.share)(self.0),
            }
        }
        Self(self.0)
    }
}

impl<D> Drop for ColorRef<D> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: as in `clone`; this reference's count is given up.
        unsafe {
            match self.kind {
                HeadKind::Queue => Arc::decrement_strong_count(self.queue()),
                HeadKind::TaskColor(vtable) => (vtable.unshare)(self.0),
            }
        }
    }
}

impl<D> Token<D> {
    /// Called by the thread that has moved the count from zero.
    pub(crate) fn new(color: ColorRef<D>) -> Self {
        Self(color)
    }

    /// The token's reference to the color.
    pub(crate) fn into_color(self) -> ColorRef<D> {
        self.0
    }

    /// The color this token belongs to.
    pub fn color(&self) -> &ColorRef<D> {
        &self.0
    }

    /// Sends the color to core `core`: from now on the color's tokens, including this token, go to
    /// that core's ready queue.
    pub fn move_to(&self, core: u32) {
        // Relaxed: a producer that makes the next token reads a count that follows this store. A
        // thread that reads the core earlier takes the core as a hint.
        self.0.core.store(core, Ordering::Relaxed);
    }

    /// Runs at most `batch` events (at least one), oldest first. Stops early when `after` breaks;
    /// `after` is called with the color and the label of each event that has run.
    ///
    /// An event that panics has ended; the color goes on with the next event.
    pub fn run(
        self,
        batch: usize,
        after: impl FnMut(&ColorHead<D>, Label) -> ControlFlow<()>,
    ) -> (BatchCounts, BatchRun<D>) {
        self.run_watched(batch, |_, _| ControlFlow::Continue(()), after)
    }

    /// As [`run`](Self::run); `before` is called with the color and the label of each event that is
    /// about to run. If `before` breaks, that event does not run now: the event stays the first of
    /// the color, and the token comes back.
    // Inlined, because the watching closures then cost only a few instructions for each event.
    #[inline(always)]
    pub fn run_watched(
        self,
        batch: usize,
        before: impl FnMut(&ColorHead<D>, Label) -> ControlFlow<()>,
        after: impl FnMut(&ColorHead<D>, Label) -> ControlFlow<()>,
    ) -> (BatchCounts, BatchRun<D>) {
        let (ran, done, held) = match self.0.kind {
            HeadKind::Queue => self.run_queue(batch, before, after),
            HeadKind::TaskColor(vtable) => self.run_task_color(vtable, before, after),
        };
        (ran, if held { BatchRun::Held(self.hold(done)) } else { self.settle(done) })
    }

    /// Returns the counters, the count to subtract, and whether the last event holds the color.
    #[inline(always)]
    fn run_queue(
        &self,
        batch: usize,
        mut before: impl FnMut(&ColorHead<D>, Label) -> ControlFlow<()>,
        mut after: impl FnMut(&ColorHead<D>, Label) -> ControlFlow<()>,
    ) -> (BatchCounts, QueuedEvents, bool) {
        let counted = self.counted();
        debug_assert!(counted > 0, "a token exists only while its color is counted above zero");
        let most = counted.min(batch.max(1));
        let (mut ran, mut done, mut held) = (BatchCounts::default(), QueuedEvents(0), false);
        let _on_color = colored::enter(self.0.id);
        while ran.events < most {
            // SAFETY: this is the token of a queue, and that many events were counted.
            let event = unsafe { (*self.0.queue()).next() };
            let label = event.label();
            if before(&self.0, label).is_break() {
                // SAFETY: as above; `next` returned this event, and no event has run since.
                unsafe { (*self.0.queue()).put_back(event) };
                break;
            }
            ran.events += 1;
            done = done + QueuedEvents::event(label);
            ran.panics += usize::from(panics(|| event.run()));
            held = colored::take_hold();
            if after(&self.0, label).is_break() || held {
                break;
            }
        }
        (ran, done, held)
    }

    #[inline(always)]
    fn run_task_color(
        &self,
        vtable: &TaskColorVtable<D>,
        mut before: impl FnMut(&ColorHead<D>, Label) -> ControlFlow<()>,
        mut after: impl FnMut(&ColorHead<D>, Label) -> ControlFlow<()>,
    ) -> (BatchCounts, QueuedEvents, bool) {
        // SAFETY: `vtable` belongs to this head's kind, and the token has a reference count.
        let label = unsafe { (vtable.label)(self.0.0) };
        let _on_color = colored::enter(self.0.id);
        if before(&self.0, label).is_break() {
            // The event keeps waiting, and a post meanwhile finds the event waiting.
            return (BatchCounts::default(), QueuedEvents(0), false);
        }
        let done = self.0.begin();
        // SAFETY: as above; this is the token.
        let panicked = panics(|| unsafe { (vtable.run)(self.0.0) });
        let held = colored::take_hold();
        // There is a single event, so a break has no effect.
        let _ = after(&self.0, label);
        (BatchCounts { events: 1, panics: usize::from(panicked) }, done, held)
    }

    /// Drops every event that is counted, without running it, on this color. Returns their number.
    ///
    /// A call within the destructor of an event that another call drops returns 0. The outermost
    /// call on this thread then also drops these events before it returns, because a chain of such
    /// colors could overflow the stack.
    pub fn discard(self) -> usize {
        let Some(_outermost) = OutermostDiscard::begin() else {
            discard_later(Box::new(move || {
                self.discard_now();
            }));
            return 0;
        };
        self.discard_now()
    }

    fn discard_now(self) -> usize {
        let (mut token, mut all) = (self, 0);
        loop {
            let (counted, done) = match token.0.kind {
                HeadKind::Queue => token.discard_queue(),
                HeadKind::TaskColor(vtable) => token.discard_task_color(vtable),
            };
            all += counted;
            match token.settle(done) {
                BatchRun::Again(again) => token = again,
                BatchRun::Empty => return all,
                BatchRun::Held(_) => unreachable!("nothing ran"),
            }
        }
    }

    fn discard_queue(&self) -> (usize, QueuedEvents) {
        let counted = self.counted();
        let mut done = QueuedEvents(0);
        let _on_color = colored::enter(self.0.id);
        for _ in 0..counted {
            // SAFETY: as in `run_queue`.
            let event = unsafe { (*self.0.queue()).next() };
            done = done + QueuedEvents::event(event.label());
            // A destructor that panics must not keep the other events from being dropped.
            panics(|| drop(event));
        }
        (counted, done)
    }

    fn discard_task_color(&self, vtable: &TaskColorVtable<D>) -> (usize, QueuedEvents) {
        let done = self.0.begin();
        let _on_color = colored::enter(self.0.id);
        // SAFETY: as in `run_task_color`.
        panics(|| unsafe { (vtable.drop)(self.0.0) });
        (1, done)
    }

    /// The events counted so far, all of which are linked.
    fn counted(&self) -> usize {
        QueuedEvents(self.0.counted.load(Ordering::Acquire)).number()
    }

    /// Subtracts `done`; keeps the token if other events are counted.
    #[inline]
    fn settle(self, done: QueuedEvents) -> BatchRun<D> {
        let own = match self.0.kind {
            // SAFETY: this is the token of a queue, and every event that ran has returned.
            HeadKind::Queue => unsafe { (*self.0.queue()).take_own() },
            HeadKind::TaskColor(_) => QueuedEvents(0),
        };
        let less = done - own;
        if less.0 == 0 {
            // Equal number and equal worth: the count does not change, and the token stays.
            return BatchRun::Again(self);
        }
        // Release: the next holder sees the writes of our events. Acquire: if events remain, this
        // holder sees the counted events. When this subtraction brings the count to zero, a new
        // token may exist elsewhere from here on. So touch nothing but our reference count of the
        // memory.
        let before = QueuedEvents(self.0.counted.fetch_sub(less.0, counting()));
        match (before - less).number() {
            0 => BatchRun::Empty,
            QueuedEvents::EVENTS_MAX.. => std::process::abort(),
            _ => BatchRun::Again(self),
        }
    }

    /// Subtracts `done` except for the last event, whose count keeps the token alive.
    fn hold(self, done: QueuedEvents) -> HeldColor<D> {
        match self.settle(QueuedEvents(done.0 - QueuedEvents::SPENT.0)) {
            BatchRun::Again(token) => HeldColor(Some(token)),
            BatchRun::Empty | BatchRun::Held(_) => unreachable!("the event that holds is still counted"),
        }
    }
}

impl<D> HeldColor<D> {
    fn token(&self) -> &Token<D> {
        self.0.as_ref().expect("only the release takes the token")
    }

    /// The color that stands still.
    pub fn color(&self) -> &ColorRef<D> {
        self.token().color()
    }

    /// As [`Token::move_to`].
    pub fn move_to(&self, core: u32) {
        self.token().move_to(core);
    }

    /// Lets the color go on.
    pub fn release(mut self) -> BatchRun<D> {
        let token = self.0.take().expect("only the release takes the token");
        token.settle(QueuedEvents::SPENT)
    }
}

impl<D> Drop for HeldColor<D> {
    fn drop(&mut self) {
        if let Some(token) = self.0.take()
            && let BatchRun::Again(token) = token.settle(QueuedEvents::SPENT)
        {
            token.discard();
        }
    }
}

/// Runs `body` on all of these colors at once. Gives whether it panicked.
pub(crate) fn run_together<D>(held: &[HeldColor<D>], body: impl FnOnce()) -> bool {
    let _on_colors: Vec<_> = held.iter().map(|held| colored::enter_too(held.color().id)).collect();
    panics(body)
}
