//! A color: a serial queue that owns its events. Its producers' side, and how events are counted.
//!
//! Owns the count-token protocol: a color has a token if and only if its count is above zero. Producers link an event
//! and then count it; the producer that moves the count from zero makes the token. The token's holder runs at most what
//! was counted and subtracts it; whoever brings the count to zero destroys the token in the same operation. One
//! read-modify-write decides both, so there is no window in which a wake-up could fall between two flags.
//!
//! Leaves out what the holder does (`token.rs`) and colors that one event has for itself (`own.rs`). Checked in
//! `model/color.rs`: exclusion, no double token, no lost event, FIFO per producer.
#![allow(unsafe_code)]

use crate::{
    canary::{Bug, planted},
    event::{Event, Header, Label},
    sync::{AtomicPtr, Ordering, UnsafeCell},
    token::{ColorRef, Head, Kind, Token},
};
use std::{
    cell::Cell,
    ops::{Add, Deref},
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
    /// Events taken from the inbox and put in order, not yet run. Touched by the token's holder only.
    taken: UnsafeCell<List>,
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
    const EVENTS_MAX: usize = (Self::AWAY as usize) / 2;

    /// One event that nothing of its worth is left of.
    pub(crate) const SPENT: Self = Self(1);

    /// Beside the number, which does not reach it: the one event of an own color waits.
    pub(crate) const POSTED: u64 = 1 << 31;

    /// As that: the event stands in the queue of another color.
    pub(crate) const AWAY: u64 = 1 << 30;

    /// One event.
    pub(crate) fn event(label: Label) -> Self {
        Self((u64::from(label.worth_ns).div_ceil(Self::WORTH_UNIT_NS) << 32) | 1)
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

/// Singly linked, oldest first.
struct List {
    first: *mut Header,
}

// SAFETY: the raw pointers are events owned by the queue, which are `Send`; `taken` is guarded by the token.
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
            taken: UnsafeCell::new(List { first: null_mut() }),
        })
    }

    /// Queues `event`. Gives the token when the color was empty: the caller must put it in a ready queue.
    #[must_use = "a token that is dropped strands its color"]
    pub fn push(self: &Arc<Self>, event: Event) -> Option<Token<D>> {
        let one = Counted::event(event.label());
        self.link(event.into_raw());
        // Release: the count covers an event that is linked. Acquire: the new token's holder continues after the last
        // one, whose final subtraction this addition reads.
        match Counted(self.head.counted.fetch_add(one.0, counting())).number() {
            0 => Some(self.token()),
            1 if planted(Bug::SecondToken) => Some(self.token()),
            before => {
                if before >= Counted::EVENTS_MAX {
                    std::process::abort();
                }
                None
            }
        }
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
        self.taken.with_mut(|list| {
            // SAFETY: whoever holds the token touches the list, and nobody else.
            let list = unsafe { &mut *list };
            if list.first.is_null() {
                list.refill(self.take_all());
            }
            list.pop().expect("an event that is counted is linked")
        })
    }
}

impl List {
    /// Takes over a chain that is newest first and reverses it.
    fn refill(&mut self, mut newest: *mut Header) {
        if planted(Bug::NewestFirst) {
            self.first = newest;
            return;
        }
        while !newest.is_null() {
            let header = newest;
            // SAFETY: the chain was taken out of the inbox with the token held: these events are ours.
            newest = unsafe { std::mem::replace(&mut (*header).next, self.first) };
            self.first = header;
        }
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
