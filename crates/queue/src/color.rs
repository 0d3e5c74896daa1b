//! A color: a serial queue that owns its events. Its producers' side, and how events are counted.
//!
//! Owns the count-token protocol: a color has a token if and only if its count is above zero. Producers link an event
//! and then count it; the producer that moves the count from zero makes the token. The token's holder runs at most what
//! was counted and subtracts it; whoever brings the count to zero destroys the token in the same operation. One
//! read-modify-write decides both, so there is no window in which a wake-up could fall between two flags. What an event posts
//! to its own color needs none: its thread holds the token, and accounts for it when it settles.
//!
//! Leaves out what the holder does (`token.rs`) and colors that one event has for itself (`own.rs`). Checked in
//! `model/color.rs`: exclusion, no double token, no lost event, FIFO per producer.
#![allow(unsafe_code)]

use crate::{
    canary::{Bug, planted},
    colored::current_color,
    event::{Event, Header, Label},
    sync::{AtomicPtr, Ordering, UnsafeCell},
    token::{ColorRef, Head, Kind, Token},
};
use std::{
    cell::Cell,
    ops::{Add, Deref, Sub},
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
    pub(crate) fn fresh() -> Self {
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
/// known of the color. On no line of its own: a producer reads the color's core and takes part in its reference count too, so
/// the whole moves between caches together, and the fewer lines the better.
#[repr(C)]
pub struct ColorQueue<D: 'static = ()> {
    head: Head<D>,
    /// Events pushed and not yet taken, newest first.
    inbox: AtomicPtr<Header>,
    /// Touched by the token's holder only.
    held: UnsafeCell<HeldSide>,
}

/// What became of an event that was posted.
pub enum Pushed<D: 'static = ()> {
    /// The color was empty: the caller must put its token in a ready queue.
    First(Token<D>),
    /// The color has its token, somewhere.
    Behind,
    /// The color runs on this thread, which counts the event when it settles.
    Own,
}

/// How counting orders what comes before and after it.
#[inline(always)]
pub(crate) fn counting() -> Ordering {
    if planted(Bug::RelaxedCount) { Ordering::Relaxed } else { Ordering::AcqRel }
}

/// Events and what they are worth together, as one number: the events in the lower half, the worth in the upper. Sums and
/// differences of two of them are those of their parts. The worth is signed, since an event may have run before it is counted
/// (another one was counted in its place), and it wraps, and comes back when what made it wrap has run.
#[derive(Clone, Copy)]
pub(crate) struct Counted(pub(crate) u64);

impl Counted {
    /// The unit of worth, in nanoseconds: finer than anything is worth to be stolen for, and a color may hold two minutes.
    const WORTH_UNIT_NS: u64 = 64;
    /// More events than this on one color end the process, as too many owners of an `Arc` do: the number must not run over.
    pub(crate) const EVENTS_MAX: usize = (Self::AWAY as usize) / 2;

    /// One event that nothing of its worth is left of.
    pub(crate) const SPENT: Self = Self(1);

    /// Beside the number, which does not reach it: the one event of an own color waits.
    pub(crate) const POSTED: u64 = 1 << 31;

    /// As that: the event stands in the queue of another color.
    pub(crate) const AWAY: u64 = 1 << 30;

    /// One event.
    #[inline]
    pub(crate) fn event(label: Label) -> Self {
        Self((u64::from(label.worth_ns()).div_ceil(Self::WORTH_UNIT_NS) << 32) | 1)
    }

    pub(crate) fn number(self) -> usize {
        (self.0 & (Self::AWAY - 1)) as usize
    }

    pub(crate) fn is_posted(self) -> bool {
        self.0 & Self::POSTED != 0
    }

    pub(crate) fn posted(self) -> Self {
        Self(self.0 | Self::POSTED)
    }

    pub(crate) fn without_marks(self) -> Self {
        Self(self.0 & !(Self::POSTED | Self::AWAY))
    }

    pub(crate) fn worth_ns(self) -> u64 {
        let units = self.0.cast_signed() >> 32;
        units.max(0).cast_unsigned() * Self::WORTH_UNIT_NS
    }
}

impl Add for Counted {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

impl Sub for Counted {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }
}

/// What the holder of the token has of a queue.
struct HeldSide {
    /// Events taken from the inbox and put in order, and behind them the color's own; not yet run.
    taken: List,
    /// The color's own events that were posted since the last settling.
    own: Counted,
}

/// Singly linked, oldest first.
struct List {
    first: *mut Header,
    /// Of a list that is not empty.
    last: *mut Header,
}

// SAFETY: the raw pointers are events owned by the queue, which are `Send`; `held` is guarded by the token.
unsafe impl<D: Send> Send for ColorQueue<D> {}
// SAFETY: as above; everything else is atomic.
unsafe impl<D: Sync> Sync for ColorQueue<D> {}

impl<D> Deref for ColorQueue<D> {
    type Target = Head<D>;

    fn deref(&self) -> &Head<D> {
        &self.head
    }
}

impl<D> ColorQueue<D> {
    /// An empty color with a name of its own, whose token, when it has one, goes to core `core`.
    pub fn new(core: u32, about: D) -> Arc<Self> {
        Arc::new(Self {
            head: Head::new(&Kind::Queue, ColorId::fresh(), core, about),
            inbox: AtomicPtr::new(null_mut()),
            held: UnsafeCell::new(HeldSide {
                taken: List { first: null_mut(), last: null_mut() },
                own: Counted(0),
            }),
        })
    }

    /// What else is known of the color, to be changed while nobody shares it.
    pub fn about_mut(&mut self) -> &mut D {
        &mut self.head.about
    }

    /// Queues `event`. Gives the token when the color was empty: the caller must put it in a ready queue.
    #[must_use = "a token that is dropped strands its color"]
    pub fn push(self: &Arc<Self>, event: Event) -> Option<Token<D>> {
        if let Pushed::First(token) = self.post(event) { Some(token) } else { None }
    }

    /// As [`push`](Self::push), and tells what else it has found.
    #[inline]
    #[must_use = "a token that is dropped strands its color"]
    pub fn post(self: &Arc<Self>, event: Event) -> Pushed<D> {
        // What stands in the inbox was posted earlier, perhaps by this thread. Relaxed: what of another's happened before this
        // push is seen in any case, and this thread's own stores are.
        let first = self.inbox.load(Ordering::Relaxed).is_null() || planted(Bug::OwnOvertakes);
        if first && current_color() == Some(self.id()) {
            // SAFETY: a thread's note of its color is set for as long as it runs its events, by the holder of the token.
            unsafe { self.push_own(event) };
            return Pushed::Own;
        }
        let one = Counted::event(event.label());
        self.link(event.into_raw());
        // Release: the count covers an event that is linked. Acquire: the new token's holder continues after the last
        // one, whose final subtraction this addition reads.
        match Counted(self.head.counted.fetch_add(one.0, counting())).number() {
            0 => Pushed::First(self.token()),
            1 if planted(Bug::SecondToken) => Pushed::First(self.token()),
            before => {
                if before >= Counted::EVENTS_MAX {
                    std::process::abort();
                }
                Pushed::Behind
            }
        }
    }

    /// # Safety
    /// The calling thread holds the token, and nothing of it is under way: an event of the color runs.
    #[inline]
    unsafe fn push_own(&self, event: Event) {
        self.held.with_mut(|held| {
            // SAFETY: whoever holds the token touches this side, and nobody else; `next` has returned before an event runs.
            let held = unsafe { &mut *held };
            held.own = held.own + Counted::event(event.label());
            if held.own.number() >= Counted::EVENTS_MAX {
                std::process::abort();
            }
            held.taken.append(event.into_raw());
        });
    }

    /// What the color's own events are to be counted as, told once.
    ///
    /// # Safety
    /// The caller holds the token, and no event of the color runs.
    #[inline]
    pub(crate) unsafe fn take_own(&self) -> Counted {
        // SAFETY: as in `push_own`.
        self.held.with_mut(|held| unsafe { std::mem::replace(&mut (*held).own, Counted(0)) })
    }

    fn token(self: &Arc<Self>) -> Token<D> {
        Token::new(ColorRef::of(Arc::clone(self)))
    }

    fn link(&self, event: NonNull<Header>) {
        let mut newest = self.inbox.load(Ordering::Relaxed);
        loop {
            // SAFETY: until the exchange succeeds the event is ours alone.
            unsafe { (*event.as_ptr()).next = newest };
            // Release pairs with the swap in `take_all`: the holder sees the event whole.
            match self.inbox.compare_exchange_weak(
                newest,
                event.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(changed) => newest = changed,
            }
        }
    }

    /// Empties the inbox. Acquire pairs with the exchange in `link`.
    fn take_all(&self) -> *mut Header {
        if planted(Bug::TakeInTwoSteps) {
            let newest = self.inbox.load(Ordering::Acquire);
            self.inbox.store(null_mut(), Ordering::Release);
            return newest;
        }
        self.inbox.swap(null_mut(), Ordering::Acquire)
    }

    /// The oldest event.
    ///
    /// # Safety
    /// The caller holds the token, and calls this at most as often as events were counted: what is counted is linked.
    pub(crate) unsafe fn next(&self) -> Event {
        self.held.with_mut(|held| {
            // SAFETY: as in `push_own`.
            let list = unsafe { &mut (*held).taken };
            if list.first.is_null() {
                list.refill(self.take_all());
            }
            list.pop().expect("an event that is counted is linked")
        })
    }

    /// Takes the oldest event back.
    ///
    /// # Safety
    /// The caller holds the token, and `event` is what [`next`](Self::next) gave last.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn put_back(&self, event: Event) {
        // SAFETY: as in `push_own`.
        self.held.with_mut(|held| unsafe { (*held).taken.prepend(event.into_raw()) });
    }
}

impl List {
    /// Takes over a chain that is newest first and reverses it.
    fn refill(&mut self, mut newest: *mut Header) {
        if planted(Bug::NewestFirst) {
            self.first = newest;
            while !newest.is_null() {
                self.last = newest;
                // SAFETY: as below.
                newest = unsafe { (*newest).next };
            }
            return;
        }
        self.last = newest;
        while !newest.is_null() {
            let header = newest;
            // SAFETY: the chain was taken out of the inbox with the token held: these events are ours.
            newest = unsafe { std::mem::replace(&mut (*header).next, self.first) };
            self.first = header;
        }
    }

    /// Puts an event that is ours at the end.
    fn append(&mut self, event: NonNull<Header>) {
        // SAFETY: the event is ours, and so is the last one of a list that is not empty.
        unsafe {
            (*event.as_ptr()).next = null_mut();
            match self.first.is_null() {
                true => self.first = event.as_ptr(),
                false => (*self.last).next = event.as_ptr(),
            }
        }
        self.last = event.as_ptr();
    }

    /// Puts an event that is ours at the beginning.
    fn prepend(&mut self, event: NonNull<Header>) {
        if self.first.is_null() {
            self.last = event.as_ptr();
        }
        // SAFETY: the event is ours.
        unsafe { (*event.as_ptr()).next = self.first };
        self.first = event.as_ptr();
    }

    fn pop(&mut self) -> Option<Event> {
        let first = NonNull::new(self.first)?;
        // SAFETY: events in the list are live and ours; taking the head out gives its ownership to the `Event`.
        unsafe {
            self.first = (*first.as_ptr()).next;
            Some(Event::from_raw(first))
        }
    }
}

impl<D> Drop for ColorQueue<D> {
    fn drop(&mut self) {
        // Nobody holds a token (it has an Arc) and nobody pushes: drop what is left, oldest first.
        let newest = self.take_all();
        self.held.with_mut(|held| {
            // SAFETY: `&mut self` excludes everybody.
            let list = unsafe { &mut (*held).taken };
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
