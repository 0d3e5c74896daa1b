//! A color: a serial queue that owns its events, and the token that stands for its right to run.
//!
//! Owns the count-token protocol: a color has a token if and only if its count is above zero. Producers link an event
//! and then count it; the producer that moves the count from zero makes the token. The token's holder runs at most what
//! was counted and subtracts it; whoever brings the count to zero destroys the token in the same operation. One
//! read-modify-write decides both, so there is no window in which a wake-up could fall between two flags.
//!
//! An event may hold its color: the token then stands still, in a [`Held`], until whoever has it runs something on the
//! color and releases it. That is how several colors are had at once.
//!
//! Leaves out where a token waits (`ready.rs`) and who may take it (the scheduler). Checked in `model/color.rs`:
//! exclusion, no double token, no lost event, FIFO per producer.
#![allow(unsafe_code)]

use crate::{
    canary::{Bug, planted},
    colored,
    event::{Event, Header, Label},
    sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, UnsafeCell, panics},
};
use std::{
    cell::Cell,
    ops::ControlFlow,
    ptr::{NonNull, null_mut},
    sync::Arc,
};

/// Names a color for as long as the process lives; never zero, never given to two colors.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ColorId(pub std::num::NonZeroU64);

/// Names that a thread takes at once, so that threads which make colors do not meet at the counter for each. Guess.
const NAMES_AT_ONCE: u64 = 256;

impl ColorId {
    /// A name that no other color of the process has: `Colored` would be unsound if two colors, which may run at once,
    /// shared one. So names are given out here and by no caller.
    fn fresh() -> Self {
        // std's, also under loom: which number a color gets decides nothing.
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let take = |count| NEXT.fetch_add(count, std::sync::atomic::Ordering::Relaxed);
        std::thread_local! {
            /// The next name of this thread, and how many it has left.
            static MINE: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
        }
        let mine = MINE.try_with(|mine| {
            let (next, left) = mine.get();
            let (next, left) = if left == 0 { (take(NAMES_AT_ONCE), NAMES_AT_ONCE) } else { (next, left) };
            mine.set((next + 1, left - 1));
            next
        });
        // A destructor that runs while the thread ends has none of its own.
        let number = mine.unwrap_or_else(|_| take(1));
        Self(std::num::NonZeroU64::new(number).expect("names start at one and do not run out"))
    }
}

/// A serial queue of events. Shared by producers through an `Arc`; run by the holder of its [`Token`]. `D`: what else is
/// known of the color.
pub struct ColorQueue<D = ()> {
    id: ColorId,
    /// Index of the core whose ready queue the token goes to. Written by the token's holder.
    core: AtomicU32,
    /// What else is known of the color.
    pub about: D,
    producers: Producers,
    /// Events taken from the inbox and put in order, not yet run. Touched by the token's holder only.
    taken: UnsafeCell<List>,
}

/// What producers write. On no line of its own: a producer reads the color's core and takes part in its reference count
/// too, so the whole moves between caches together, and the fewer lines the better.
struct Producers {
    /// Events pushed and not yet taken, newest first.
    inbox: AtomicPtr<Header>,
    /// Events counted and not yet accounted as run, and their worth: one word, so that one operation changes both. The
    /// token exists while the number of events is above zero.
    counted: AtomicU64,
}

impl Producers {
    /// Empties the inbox. Acquire pairs with the exchange in `link`.
    fn take_all(&self) -> *mut Header {
        if planted(Bug::TakeInTwoSteps) {
            let newest = self.inbox.load(Ordering::Acquire);
            self.inbox.store(null_mut(), Ordering::Release);
            return newest;
        }
        self.inbox.swap(null_mut(), Ordering::Acquire)
    }
}

/// How counting orders what comes before and after it.
#[inline(always)]
fn counting() -> Ordering {
    if planted(Bug::RelaxedCount) { Ordering::Relaxed } else { Ordering::AcqRel }
}

/// Events and what they are worth together, as one number: the events in the lower half, the worth in the upper. Sums and
/// differences of two of them are those of their parts. The worth is signed, since an event may have run before it is counted
/// (another one was counted in its place), and it wraps, and comes back when what made it wrap has run.
#[derive(Clone, Copy)]
struct Counted(u64);

impl Counted {
    /// The unit of worth, in nanoseconds: finer than anything is worth to be stolen for, and a color may hold two minutes.
    const WORTH_UNIT_NS: u64 = 64;
    /// More events than this on one color end the process, as too many owners of an `Arc` do: the number must not run over.
    const EVENTS_MAX: u32 = u32::MAX / 2;

    /// One event that nothing of its worth is left of.
    const SPENT: Self = Self(1);

    /// One event.
    fn event(label: Label) -> Self {
        Self((u64::from(label.worth_ns).div_ceil(Self::WORTH_UNIT_NS) << 32) | 1)
    }

    fn number(self) -> usize {
        self.0 as u32 as usize
    }

    fn worth_ns(self) -> u64 {
        let units = self.0.cast_signed() >> 32;
        units.max(0).cast_unsigned() * Self::WORTH_UNIT_NS
    }
}

impl std::ops::Add for Counted {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

/// Singly linked, oldest first.
struct List {
    first: *mut Header,
}

// SAFETY: the raw pointers are events owned by the queue, which are `Send`; `taken` is guarded by the token.
unsafe impl<D: Send> Send for ColorQueue<D> {}
// SAFETY: as above; everything else is atomic.
unsafe impl<D: Sync> Sync for ColorQueue<D> {}

/// The right to run a color's events: at most one exists per color.
pub struct Token<D = ()>(Arc<ColorQueue<D>>);

/// What became of a token that was run.
pub enum Activation<D = ()> {
    /// Events remain: the token must go back to a ready queue.
    Again(Token<D>),
    /// The color is empty; the next push makes a new token.
    Empty,
    /// The last event that ran holds the color: nothing of it runs until this is released.
    Held(Held<D>),
}

/// A color that stands still. Dropping it without releasing it strands the color: release it with [`Held::release`] or
/// [`run_together`].
#[must_use = "a held color that is dropped stands still for ever"]
pub struct Held<D = ()>(Token<D>);

/// How much an activation ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Events that ran, panicked ones included.
    pub events: usize,
    /// Events that ended in a panic.
    pub panics: usize,
}

impl<D> ColorQueue<D> {
    /// An empty color with a name of its own, whose token, when it has one, goes to core `core`.
    pub fn new(core: u32, about: D) -> Arc<Self> {
        Arc::new(Self {
            id: ColorId::fresh(),
            core: AtomicU32::new(core),
            about,
            producers: Producers { inbox: AtomicPtr::new(null_mut()), counted: AtomicU64::new(0) },
            taken: UnsafeCell::new(List { first: null_mut() }),
        })
    }

    /// The color's name.
    pub fn id(&self) -> ColorId {
        self.id
    }

    /// Index of the core whose ready queue the token goes to.
    pub fn core(&self) -> u32 {
        self.core.load(Ordering::Relaxed)
    }

    /// Sum of the [`Label::worth_ns`] of the events that are queued, each rounded up to 64 ns. Zero when nothing is queued;
    /// a hint for whoever does not hold the token.
    pub fn worth_ns(&self) -> u64 {
        Counted(self.producers.counted.load(Ordering::Relaxed)).worth_ns()
    }

    /// Events pushed and not yet run; a hint for whoever does not hold the token.
    pub fn len(&self) -> usize {
        Counted(self.producers.counted.load(Ordering::Relaxed)).number()
    }

    /// Whether nothing is queued; a hint, as [`ColorQueue::len`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Queues `event`. Gives the token when the color was empty: the caller must put it in a ready queue.
    #[must_use = "a token that is dropped strands its color"]
    pub fn push(self: &Arc<Self>, event: Event) -> Option<Token<D>> {
        let one = Counted::event(event.label());
        self.link(event.into_raw());
        // Release: the count covers an event that is linked. Acquire: the new token's holder continues after the last
        // one, whose final subtraction this addition reads.
        match Counted(self.producers.counted.fetch_add(one.0, counting())).number() {
            0 => Some(Token(Arc::clone(self))),
            1 if planted(Bug::SecondToken) => Some(Token(Arc::clone(self))),
            before => {
                if before >= Counted::EVENTS_MAX as usize {
                    std::process::abort();
                }
                None
            }
        }
    }

    fn link(&self, event: NonNull<Header>) {
        let inbox = &self.producers.inbox;
        let mut newest = inbox.load(Ordering::Relaxed);
        loop {
            // SAFETY: until the exchange succeeds the event is ours alone.
            unsafe { (*event.as_ptr()).next = newest };
            // Release pairs with the swap in `take`: the holder sees the event whole.
            match inbox.compare_exchange_weak(newest, event.as_ptr(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(changed) => newest = changed,
            }
        }
    }
}

impl<D> Token<D> {
    /// The color this token belongs to.
    pub fn color(&self) -> &Arc<ColorQueue<D>> {
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
        after: impl FnMut(&ColorQueue<D>, Label) -> ControlFlow<()>,
    ) -> (Ran, Activation<D>) {
        self.run_watched(batch, |_, _| (), after)
    }

    /// As [`run`](Self::run); `before` is shown the same of each event that is about to run.
    // What watches is a few instructions for each event, if it is inlined.
    #[inline(always)]
    pub fn run_watched(
        self,
        batch: usize,
        mut before: impl FnMut(&ColorQueue<D>, Label),
        mut after: impl FnMut(&ColorQueue<D>, Label) -> ControlFlow<()>,
    ) -> (Ran, Activation<D>) {
        let counted = self.counted();
        debug_assert!(counted > 0, "a token exists only while its color is counted above zero");
        let most = counted.min(batch.max(1));
        let (mut ran, mut done, mut held) = (Ran::default(), Counted(0), false);
        {
            let _on_color = colored::enter(self.0.id);
            while ran.events < most {
                let event = self.next();
                let label = event.label();
                ran.events += 1;
                done = done + Counted::event(label);
                before(&self.0, label);
                ran.panics += usize::from(panics(|| event.run()));
                held = colored::take_hold();
                if after(&self.0, label).is_break() || held {
                    break;
                }
            }
        }
        let activation = if held { Activation::Held(self.hold(done)) } else { self.settle(done) };
        (ran, activation)
    }

    /// Drops every event that is counted, without running it, on this color.
    pub fn discard(self) -> usize {
        let counted = self.counted();
        let mut done = Counted(0);
        {
            let _on_color = colored::enter(self.0.id);
            for _ in 0..counted {
                let event = self.next();
                done = done + Counted::event(event.label());
                // A destructor that panics must not keep the others from being dropped.
                panics(|| drop(event));
            }
        }
        match self.settle(done) {
            Activation::Again(token) => counted + token.discard(),
            Activation::Empty => counted,
            Activation::Held(_) => unreachable!("nothing ran"),
        }
    }

    /// The oldest event. To be called at most as often as events were counted: what is counted is linked.
    fn next(&self) -> Event {
        self.0.taken.with_mut(|list| {
            // SAFETY: we hold the token, so nobody else touches the list.
            let list = unsafe { &mut *list };
            if list.first.is_null() {
                let newest = self.0.producers.take_all();
                list.refill(newest);
            }
            list.pop().expect("an event that is counted is linked")
        })
    }

    /// The events counted so far, all of which are linked.
    fn counted(&self) -> usize {
        Counted(self.0.producers.counted.load(Ordering::Acquire)).number()
    }

    /// Accounts what is done; keeps the token if other events are counted.
    fn settle(self, done: Counted) -> Activation<D> {
        // Release: the next holder sees what our events did. Acquire: if events remain, see those that were counted.
        // When this brings the count to zero a new token may exist elsewhere from here on: touch nothing but the Arc.
        let before = Counted(self.0.producers.counted.fetch_sub(done.0, counting()));
        if before.number() == done.number() { Activation::Empty } else { Activation::Again(self) }
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
    pub fn color(&self) -> &Arc<ColorQueue<D>> {
        self.0.color()
    }

    /// Lets the color go on.
    pub fn release(self) -> Activation<D> {
        self.0.settle(Counted::SPENT)
    }
}

/// Runs `body` on all of these colors at once, then releases them. Gives whether it panicked, and the colors' tokens.
pub fn run_together<D>(held: Vec<Held<D>>, body: impl FnOnce()) -> (bool, Vec<Activation<D>>) {
    let panicked = {
        let _on_colors: Vec<_> = held.iter().map(|held| colored::enter_too(held.color().id)).collect();
        panics(body)
    };
    (panicked, held.into_iter().map(Held::release).collect())
}

impl List {
    /// Takes over a chain that is newest first and reverses it.
    fn refill(&mut self, mut newest: *mut Header) {
        if planted(Bug::NewestFirst) {
            self.first = newest;
            return;
        }
        while let Some(mut header) = NonNull::new(newest) {
            // SAFETY: the chain was taken out of the inbox with the token held: these events are ours.
            let header = unsafe { header.as_mut() };
            newest = std::mem::replace(&mut header.next, self.first);
            self.first = header;
        }
    }

    fn pop(&mut self) -> Option<Event> {
        let first = NonNull::new(self.first)?;
        // SAFETY: events in the list are live and ours; taking the head out gives its ownership to the `Event`.
        unsafe {
            self.first = first.as_ref().next;
            Some(Event::from_raw(first))
        }
    }
}

impl<D> Drop for ColorQueue<D> {
    fn drop(&mut self) {
        // Nobody holds a token (it has an Arc) and nobody pushes: drop what is left, oldest first.
        let newest = self.producers.take_all();
        self.taken.with_mut(|list| {
            // SAFETY: `&mut self` excludes everybody.
            let list = unsafe { &mut *list };
            while let Some(event) = list.pop() {
                drop(event);
            }
            list.refill(newest);
            while let Some(event) = list.pop() {
                drop(event);
            }
        });
    }
}
