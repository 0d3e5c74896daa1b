//! A color: a serial queue (a strand) that owns events. This file has the producers' side and the
//! counting of events.
//!
//! Implements the count-token protocol: a color has a token if and only if the count is above zero.
//! A producer links an event and then counts the event. The producer that moves the count from zero
//! makes the token. The holder of the token runs at most the counted events and subtracts them. The
//! holder that brings the count to zero destroys the token in the same operation. A single
//! read-modify-write decides both, so no wake-up can fall between two flags. A post from an event
//! to the same color needs no read-modify-write, because the posting thread holds the token and
//! accounts for the event on settling.
//!
//! Leaves out the holder's side (`token.rs`) and colors with a single event (`task_color.rs`).
//! Checked in `model/color.rs`: exclusion, no double token, no lost event, FIFO per producer.
#![allow(unsafe_code)]

use crate::{
    canary::{Bug, planted},
    colored::current_color,
    event::{Event, EventHeader, Label},
    sync::{AtomicPtr, Ordering, UnsafeCell},
    token::{ColorHead, ColorRef, HeadKind, Token},
};
use std::{
    cell::Cell,
    ops::{Add, Deref, Sub},
    ptr::{NonNull, null_mut},
    sync::Arc,
};

/// The name of a color: unique for the life of the process, never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ColorId(pub std::num::NonZeroU64);

/// Names that a thread takes at once, so that threads which make colors seldom share the counter.
/// Guess.
const NAMES_AT_ONCE: u64 = 256;

impl ColorId {
    /// A name that no other color of the process has. Only this function gives out names, because
    /// `Colored` would be unsound if two colors, which may run at once, shared a name.
    pub(crate) fn fresh() -> Self {
        // std's atomic, also under loom, because no protocol depends on the number of a color.
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let take = |count| NEXT.fetch_add(count, std::sync::atomic::Ordering::Relaxed);
        std::thread_local! {
            /// The next name of this thread, and the number of names left.
            static MINE: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
        }
        let mine = MINE.try_with(|mine| {
            let (next, left) = mine.get();
            let (next, left) = if left == 0 { (take(NAMES_AT_ONCE), NAMES_AT_ONCE) } else { (next, left) };
            mine.set((next + 1, left - 1));
            next
        });
        // A destructor that runs while the thread ends takes a single name from the counter.
        let number = mine.unwrap_or_else(|_| take(1));
        Self(std::num::NonZeroU64::new(number).expect("names start at one and do not run out"))
    }
}

/// A serial queue of events. Producers share the queue through an `Arc`; the holder of the
/// [`Token`] runs the events. `D` is the scheduler's metadata. The struct is not aligned to a cache
/// line of its own. A producer also reads the color's core and changes the reference count, so the
/// whole struct moves between caches together, and fewer lines are better.
#[repr(C)]
pub struct ColorQueue<D: 'static = ()> {
    head: ColorHead<D>,
    /// Events pushed and not yet taken, newest first.
    inbox: AtomicPtr<EventHeader>,
    /// Touched only by the token's holder.
    held: UnsafeCell<HeldSide>,
}

/// The result of a post.
pub enum PushOutcome<D: 'static = ()> {
    /// The color was empty: the caller must put its token in a ready queue.
    First(Token<D>),
    /// The color already has a token.
    Behind,
    /// The color runs on this thread, which counts the event on settling.
    Own,
}

/// The ordering of operations on the count.
#[inline(always)]
pub(crate) fn counting() -> Ordering {
    if planted(Bug::RelaxedCount) { Ordering::Relaxed } else { Ordering::AcqRel }
}

/// A number of events and their total worth in one word: the number in the lower half, the worth in
/// the upper half. Adding or subtracting two words adds or subtracts the parts. The worth is
/// signed, because an event may run before the event is counted (in place of a counted event). The
/// worth may wrap, and wraps back when the events that made the worth wrap have run.
#[derive(Clone, Copy)]
pub(crate) struct QueuedEvents(pub(crate) u64);

impl QueuedEvents {
    /// The unit of worth, in nanoseconds. The unit is finer than any threshold for stealing, and a
    /// color may hold two minutes of worth.
    const WORTH_UNIT_NS: u64 = 64;
    /// More events than this on one color abort the process, as too many owners of an `Arc` do,
    /// because the number must not overflow.
    pub(crate) const EVENTS_MAX: usize = (Self::AWAY as usize) / 2;

    /// A single event with no worth left.
    pub(crate) const SPENT: Self = Self(1);

    /// A mark above the number: the event of a task color waits.
    pub(crate) const POSTED: u64 = 1 << 31;

    /// A mark like `POSTED`: the event of a task color is queued on another color.
    pub(crate) const AWAY: u64 = 1 << 30;

    /// A single event.
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

impl Add for QueuedEvents {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

impl Sub for QueuedEvents {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }
}

/// The part of a queue that only the token's holder touches.
struct HeldSide {
    /// Events taken from the inbox and put in order, followed by events that the color posted to
    /// itself; not yet run.
    taken: EventList,
    /// Events that the color posted to itself since the last settling.
    own: QueuedEvents,
}

/// Singly linked, oldest first.
struct EventList {
    first: *mut EventHeader,
    /// Valid only if the list is not empty.
    last: *mut EventHeader,
}

// SAFETY: the raw pointers are events owned by the queue, which are `Send`; `held` is guarded by
// the token.
unsafe impl<D: Send> Send for ColorQueue<D> {}
// SAFETY: as above; every other field is atomic.
unsafe impl<D: Sync> Sync for ColorQueue<D> {}

impl<D> Deref for ColorQueue<D> {
    type Target = ColorHead<D>;

    fn deref(&self) -> &ColorHead<D> {
        &self.head
    }
}

impl<D> ColorQueue<D> {
    /// An empty color with a fresh name. Tokens of the color go to core `core`.
    pub fn new(core: u32, meta: D) -> Arc<Self> {
        Arc::new(Self {
            head: ColorHead::new(&HeadKind::Queue, ColorId::fresh(), core, meta),
            inbox: AtomicPtr::new(null_mut()),
            held: UnsafeCell::new(HeldSide {
                taken: EventList { first: null_mut(), last: null_mut() },
                own: QueuedEvents(0),
            }),
        })
    }

    /// The scheduler's metadata, mutable while the color is not shared.
    pub fn meta_mut(&mut self) -> &mut D {
        &mut self.head.meta
    }

    /// Queues `event`. Returns the token if the color was empty: the caller must put the token in a
    /// ready queue.
    #[must_use = "a token that is dropped strands its color"]
    pub fn push(self: &Arc<Self>, event: Event) -> Option<Token<D>> {
        if let PushOutcome::First(token) = self.post(event) { Some(token) } else { None }
    }

    /// As [`push`](Self::push), and reports the outcome of the push.
    #[inline]
    #[must_use = "a token that is dropped strands its color"]
    pub fn post(self: &Arc<Self>, event: Event) -> PushOutcome<D> {
        // An event in the inbox was posted earlier, perhaps by this thread. Relaxed suffices,
        // because this thread sees its own stores and every store that happened before this push.
        let first = self.inbox.load(Ordering::Relaxed).is_null() || planted(Bug::OwnPostOvertakes);
        if first && current_color() == Some(self.id()) {
            // SAFETY: the token's holder sets the thread's current color for exactly as long as
            // this thread runs the color's events.
            unsafe { self.push_own(event) };
            return PushOutcome::Own;
        }
        let one = QueuedEvents::event(event.label());
        self.link(event.into_raw());
        // Release: the count covers a linked event. Acquire: the new token's holder continues after
        // the last holder, because this addition reads the last holder's final subtraction.
        match QueuedEvents(self.head.counted.fetch_add(one.0, counting())).number() {
            0 => PushOutcome::First(self.token()),
            1 if planted(Bug::SecondToken) => PushOutcome::First(self.token()),
            before => {
                if before >= QueuedEvents::EVENTS_MAX {
                    std::process::abort();
                }
                PushOutcome::Behind
            }
        }
    }

    /// # Safety
    /// The calling thread holds the token and is running an event of the color, so no other access
    /// to the held side is under way.
    #[inline]
    unsafe fn push_own(&self, event: Event) {
        self.held.with_mut(|held| {
            // SAFETY: only the token's holder touches this side, and `next` has returned before an
            // event runs.
            let held = unsafe { &mut *held };
            held.own = held.own + QueuedEvents::event(event.label());
            if held.own.number() >= QueuedEvents::EVENTS_MAX {
                std::process::abort();
            }
            held.taken.append(event.into_raw());
        });
    }

    /// Takes the count of events that the color posted to itself. A second call returns zero.
    ///
    /// # Safety
    /// The caller holds the token, and no event of the color runs.
    #[inline]
    pub(crate) unsafe fn take_own(&self) -> QueuedEvents {
        // SAFETY: as in `push_own`.
        self.held.with_mut(|held| unsafe { std::mem::replace(&mut (*held).own, QueuedEvents(0)) })
    }

    fn token(self: &Arc<Self>) -> Token<D> {
        Token::new(ColorRef::of(Arc::clone(self)))
    }

    fn link(&self, event: NonNull<EventHeader>) {
        let mut newest = self.inbox.load(Ordering::Relaxed);
        loop {
            // SAFETY: until the exchange succeeds, this thread owns the event exclusively.
            unsafe { (*event.as_ptr()).next = newest };
            // Release pairs with the swap in `take_all`, so the holder sees the whole event.
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
    fn take_all(&self) -> *mut EventHeader {
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
    /// The caller holds the token, and calls this at most as often as events were counted, because
    /// counted events are linked.
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
    /// The caller holds the token, and `event` is the last result of [`next`](Self::next).
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn put_back(&self, event: Event) {
        // SAFETY: as in `push_own`.
        self.held.with_mut(|held| unsafe { (*held).taken.prepend(event.into_raw()) });
    }
}

impl EventList {
    /// Takes over a chain that is newest first and reverses it.
    fn refill(&mut self, mut newest: *mut EventHeader) {
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
            // SAFETY: the holder of the token took the chain out of the inbox and so owns these
            // events.
            newest = unsafe { std::mem::replace(&mut (*header).next, self.first) };
            self.first = header;
        }
    }

    /// Appends an event that the holder owns.
    fn append(&mut self, event: NonNull<EventHeader>) {
        // SAFETY: the holder owns the event and the last event of a list that is not empty.
        unsafe {
            (*event.as_ptr()).next = null_mut();
            match self.first.is_null() {
                true => self.first = event.as_ptr(),
                false => (*self.last).next = event.as_ptr(),
            }
        }
        self.last = event.as_ptr();
    }

    /// Prepends an event that the holder owns.
    fn prepend(&mut self, event: NonNull<EventHeader>) {
        if self.first.is_null() {
            self.last = event.as_ptr();
        }
        // SAFETY: the holder owns the event.
        unsafe { (*event.as_ptr()).next = self.first };
        self.first = event.as_ptr();
    }

    fn pop(&mut self) -> Option<Event> {
        let first = NonNull::new(self.first)?;
        // SAFETY: events in the list are live and owned by the holder; removing the head passes the
        // ownership to the `Event`.
        unsafe {
            self.first = (*first.as_ptr()).next;
            Some(Event::from_raw(first))
        }
    }
}

impl<D> Drop for ColorQueue<D> {
    fn drop(&mut self) {
        // No token exists, because a token has an Arc, and no producer pushes. The remaining events
        // are dropped, oldest first.
        let newest = self.take_all();
        self.held.with_mut(|held| {
            // SAFETY: `&mut self` excludes every other access.
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
