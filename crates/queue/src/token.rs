//! What every color has, and its token: the right to run it.
//!
//! A color is a queue (`color.rs`) or stands in the one event that has it for itself (`own.rs`). Whoever moves colors knows its
//! [`Head`] alone, and shares in either through a [`ColorRef`]. The holder's side of the count-token protocol is here.
//!
//! An event may hold its color: the token then stands still, in a [`Held`], until whoever has it runs something on the
//! color and releases it. That is how several colors are had at once.
//!
//! Leaves out where a token waits (`ready.rs`), how it comes to another core (`handover.rs`) and who may take it (the scheduler). Checked with the files named.
#![allow(unsafe_code)]

use crate::{
    color::{ColorId, ColorQueue, Counted, counting},
    colored,
    event::Label,
    handover::Wish,
    own::Own,
    sync::{AtomicU32, AtomicU64, Ordering, panics},
};
use std::{
    mem::ManuallyDrop,
    ops::{ControlFlow, Deref},
    ptr::NonNull,
    sync::Arc,
};

/// What every color has. `D`: what else is known of the color.
pub struct Head<D: 'static = ()> {
    kind: &'static Kind<D>,
    id: ColorId,
    /// Events counted and not yet accounted as run, and their worth: one word, so that one operation changes both. The
    /// token exists while the number of events is above zero.
    pub(crate) counted: AtomicU64,
    /// Index of the core whose ready queue the token goes to. Written by the token's holder.
    core: AtomicU32,
    /// Where a placement wants the color.
    pub(crate) wish: Wish,
    /// What else is known of the color.
    pub about: D,
}

/// What a head stands in.
pub(crate) enum Kind<D: 'static> {
    /// A [`ColorQueue`], as its first bytes.
    Queue,
    /// An event.
    Own(Own<D>),
}

/// A share in a color, whatever it is.
pub struct ColorRef<D: 'static = ()>(NonNull<Head<D>>);

// SAFETY: it is an `Arc` of a color queue or of an event, which are `Send` and `Sync` if `D` is.
unsafe impl<D: Send + Sync> Send for ColorRef<D> {}
// SAFETY: as above.
unsafe impl<D: Send + Sync> Sync for ColorRef<D> {}

/// The right to run a color's events: at most one exists per color.
pub struct Token<D: 'static = ()>(ColorRef<D>);

/// What became of a token that was run.
pub enum Activation<D: 'static = ()> {
    /// Events remain: the token must go back to a ready queue.
    Again(Token<D>),
    /// The color is empty; the next push makes a new token.
    Empty,
    /// The last event that ran holds the color: nothing of it runs until this is released.
    Held(Held<D>),
}

/// A color that stands still. Dropping it without releasing it strands the color: release it with [`Held::release`].
#[must_use = "a held color that is dropped stands still for ever"]
pub struct Held<D: 'static = ()>(Token<D>);

/// How much an activation ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Events that ran, panicked ones included.
    pub events: usize,
    /// Events that ended in a panic.
    pub panics: usize,
}

impl<D> Head<D> {
    // Inlined, or what is made here is copied to where it will stand.
    #[inline(always)]
    pub(crate) fn new(kind: &'static Kind<D>, id: ColorId, core: u32, about: D) -> Self {
        Self {
            kind,
            id,
            counted: AtomicU64::new(0),
            core: AtomicU32::new(core),
            wish: Wish::default(),
            about,
        }
    }

    /// The color's name.
    pub fn id(&self) -> ColorId {
        self.id
    }

    /// Index of the core whose ready queue the token goes to.
    pub fn core(&self) -> u32 {
        self.core.load(Ordering::Relaxed)
    }

    /// Whether a placement wants the color on another core, or has done so when it was there already.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.wish.is_made()
    }

    /// Sum of the [`Label::worth_ns`] of the events that are queued, each rounded up to 64 ns. Zero when nothing is queued;
    /// a hint for whoever does not hold the token.
    pub fn worth_ns(&self) -> u64 {
        Counted(self.counted.load(Ordering::Relaxed)).worth_ns()
    }

    /// Events pushed and not yet run; a hint for whoever does not hold the token. What events post to their own color counts when
    /// they have run.
    pub fn len(&self) -> usize {
        Counted(self.counted.load(Ordering::Relaxed)).number()
    }

    /// Whether nothing is queued; a hint, as [`Head::len`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<D> ColorRef<D> {
    pub(crate) fn of(queue: Arc<ColorQueue<D>>) -> Self {
        // `into_raw` is never null; the head is the first field of a `repr(C)` struct.
        Self(NonNull::new(Arc::into_raw(queue).cast_mut().cast()).expect("an Arc is never null"))
    }

    /// # Safety
    /// The pointer reaches all of what its kind says, and a count of it goes with it.
    pub(crate) unsafe fn from_raw(head: NonNull<Head<D>>) -> Self {
        Self(head)
    }

    /// The pointer, with the count that goes with it.
    pub(crate) fn into_raw(self) -> NonNull<Head<D>> {
        ManuallyDrop::new(self).0
    }

    fn queue(&self) -> *const ColorQueue<D> {
        self.0.as_ptr().cast_const().cast()
    }
}

impl<D> Deref for ColorRef<D> {
    type Target = Head<D>;

    fn deref(&self) -> &Head<D> {
        // SAFETY: our count keeps it alive, and nobody has it mutably.
        unsafe { self.0.as_ref() }
    }
}

impl<D> Clone for ColorRef<D> {
    fn clone(&self) -> Self {
        // SAFETY: the kind was written by whoever made what the head stands in, of which we have a count.
        unsafe {
            match self.kind {
                Kind::Queue => Arc::increment_strong_count(self.queue()),
                Kind::Own(own) => (own.share)(self.0),
            }
        }
        Self(self.0)
    }
}

impl<D> Drop for ColorRef<D> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: as in `clone`; our count is given up.
        unsafe {
            match self.kind {
                Kind::Queue => Arc::decrement_strong_count(self.queue()),
                Kind::Own(own) => (own.let_go)(self.0),
            }
        }
    }
}

impl<D> Token<D> {
    /// For whoever has moved the count from zero.
    pub(crate) fn new(color: ColorRef<D>) -> Self {
        Self(color)
    }

    /// The share in the color that the token has.
    pub(crate) fn into_color(self) -> ColorRef<D> {
        self.0
    }

    /// The color this token belongs to.
    pub fn color(&self) -> &ColorRef<D> {
        &self.0
    }

    /// Sends the color to core `core`: its tokens go to that core's ready queue from now on, as this one must.
    pub fn move_to(&self, core: u32) {
        // Relaxed: a producer that makes the next token after this one has ended reads a count that follows this store;
        // who reads it earlier takes it as a hint.
        self.0.core.store(core, Ordering::Relaxed);
    }

    /// Runs at most `batch` events (at least one), oldest first, and stops early when `after`, which is shown the color
    /// and the label of each event that has run, breaks.
    ///
    /// An event that panics is over; its color goes on with the next one.
    pub fn run(
        self,
        batch: usize,
        after: impl FnMut(&Head<D>, Label) -> ControlFlow<()>,
    ) -> (Ran, Activation<D>) {
        self.run_watched(batch, |_, _| ControlFlow::Continue(()), after)
    }

    /// As [`run`](Self::run); `before` is shown the same of each event that is about to run. If it breaks, that event does not
    /// run now: it stays the first of its color, whose token comes back.
    // What watches is a few instructions for each event, if it is inlined.
    #[inline(always)]
    pub fn run_watched(
        self,
        batch: usize,
        before: impl FnMut(&Head<D>, Label) -> ControlFlow<()>,
        after: impl FnMut(&Head<D>, Label) -> ControlFlow<()>,
    ) -> (Ran, Activation<D>) {
        let (ran, done, held) = match self.0.kind {
            Kind::Queue => self.run_queue(batch, before, after),
            Kind::Own(own) => self.run_own(own, before, after),
        };
        (ran, if held { Activation::Held(self.hold(done)) } else { self.settle(done) })
    }

    /// Gives what ran, how it is accounted, and whether the last event holds the color.
    #[inline(always)]
    fn run_queue(
        &self,
        batch: usize,
        mut before: impl FnMut(&Head<D>, Label) -> ControlFlow<()>,
        mut after: impl FnMut(&Head<D>, Label) -> ControlFlow<()>,
    ) -> (Ran, Counted, bool) {
        let counted = self.counted();
        debug_assert!(counted > 0, "a token exists only while its color is counted above zero");
        let most = counted.min(batch.max(1));
        let (mut ran, mut done, mut held) = (Ran::default(), Counted(0), false);
        let _on_color = colored::enter(self.0.id);
        while ran.events < most {
            // SAFETY: this is the token of a queue, and so many were counted.
            let event = unsafe { (*self.0.queue()).next() };
            let label = event.label();
            if before(&self.0, label).is_break() {
                // SAFETY: as above; `next` gave it, and nothing has run since.
                unsafe { (*self.0.queue()).put_back(event) };
                break;
            }
            ran.events += 1;
            done = done + Counted::event(label);
            ran.panics += usize::from(panics(|| event.run()));
            held = colored::take_hold();
            if after(&self.0, label).is_break() || held {
                break;
            }
        }
        (ran, done, held)
    }

    #[inline(always)]
    fn run_own(
        &self,
        own: &Own<D>,
        mut before: impl FnMut(&Head<D>, Label) -> ControlFlow<()>,
        mut after: impl FnMut(&Head<D>, Label) -> ControlFlow<()>,
    ) -> (Ran, Counted, bool) {
        // SAFETY: `own` is of this head's kind, and we have a count.
        let label = unsafe { (own.label)(self.0.0) };
        let _on_color = colored::enter(self.0.id);
        if before(&self.0, label).is_break() {
            // It waits as before, and what posts it meanwhile finds that.
            return (Ran::default(), Counted(0), false);
        }
        let done = self.0.begin();
        // SAFETY: as above; this is the token.
        let panicked = panics(|| unsafe { (own.run)(self.0.0) });
        let held = colored::take_hold();
        // One event is all there is: nothing to break off.
        let _ = after(&self.0, label);
        (Ran { events: 1, panics: usize::from(panicked) }, done, held)
    }

    /// Drops every event that is counted, without running it, on this color.
    pub fn discard(self) -> usize {
        let (counted, done) = match self.0.kind {
            Kind::Queue => self.discard_queue(),
            Kind::Own(own) => self.discard_own(own),
        };
        match self.settle(done) {
            Activation::Again(token) => counted + token.discard(),
            Activation::Empty => counted,
            Activation::Held(_) => unreachable!("nothing ran"),
        }
    }

    fn discard_queue(&self) -> (usize, Counted) {
        let counted = self.counted();
        let mut done = Counted(0);
        let _on_color = colored::enter(self.0.id);
        for _ in 0..counted {
            // SAFETY: as in `run_queue`.
            let event = unsafe { (*self.0.queue()).next() };
            done = done + Counted::event(event.label());
            // A destructor that panics must not keep the others from being dropped.
            panics(|| drop(event));
        }
        (counted, done)
    }

    fn discard_own(&self, own: &Own<D>) -> (usize, Counted) {
        let done = self.0.begin();
        let _on_color = colored::enter(self.0.id);
        // SAFETY: as in `run_own`.
        panics(|| unsafe { (own.drop)(self.0.0) });
        (1, done)
    }

    /// The events counted so far, all of which are linked.
    fn counted(&self) -> usize {
        Counted(self.0.counted.load(Ordering::Acquire)).number()
    }

    /// Accounts what is done; keeps the token if other events are counted.
    #[inline]
    fn settle(self, done: Counted) -> Activation<D> {
        let own = match self.0.kind {
            // SAFETY: this is the token of a queue, and what ran has returned.
            Kind::Queue => unsafe { (*self.0.queue()).take_own() },
            Kind::Own(_) => Counted(0),
        };
        let less = done - own;
        if less.0 == 0 {
            // As many, and worth as much: nothing for others to know, and the token stays.
            return Activation::Again(self);
        }
        // Release: the next holder sees what our events did. Acquire: if events remain, see those that were counted.
        // When this brings the count to zero a new token may exist elsewhere from here on: touch nothing but our count of the
        // memory.
        let before = Counted(self.0.counted.fetch_sub(less.0, counting()));
        match (before - less).number() {
            0 => Activation::Empty,
            Counted::EVENTS_MAX.. => std::process::abort(),
            _ => Activation::Again(self),
        }
    }

    /// Accounts what is done but for the last event: that it is counted keeps the token alive.
    fn hold(self, done: Counted) -> Held<D> {
        match self.settle(Counted(done.0 - Counted::SPENT.0)) {
            Activation::Again(token) => Held(token),
            Activation::Empty | Activation::Held(_) => unreachable!("the event that holds is still counted"),
        }
    }
}

impl<D> Held<D> {
    /// The color that stands still.
    pub fn color(&self) -> &ColorRef<D> {
        self.0.color()
    }

    /// As [`Token::move_to`].
    pub fn move_to(&self, core: u32) {
        self.0.move_to(core);
    }

    /// Lets the color go on.
    pub fn release(self) -> Activation<D> {
        self.0.settle(Counted::SPENT)
    }
}

/// Runs `body` on all of these colors at once. Gives whether it panicked.
pub(crate) fn run_together<D>(held: &[Held<D>], body: impl FnOnce()) -> bool {
    let _on_colors: Vec<_> = held.iter().map(|held| colored::enter_too(held.color().id)).collect();
    panics(body)
}
