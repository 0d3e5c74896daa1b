//! A color: a serial queue that owns its events, and the token that stands for its right to run.
//!
//! Owns the count-token protocol: a color has a token if and only if its count is above zero. Producers link an event
//! and then count it; the producer that moves the count from zero makes the token. The token's holder runs at most what
//! was counted and subtracts it; whoever brings the count to zero destroys the token in the same operation. One
//! read-modify-write decides both, so there is no window in which a wake-up could fall between two flags.
//!
//! Leaves out where a token waits (`ready.rs`) and who may take it (the scheduler). Checked in `model/color.rs`:
//! exclusion, no double token, no lost event, FIFO per producer.
#![allow(unsafe_code)]

use crate::{
    colored,
    event::{Event, Header},
    sync::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, UnsafeCell, panics},
};
use std::{
    ptr::{NonNull, null_mut},
    sync::Arc,
};

/// Names a color for as long as the process lives; never zero, never given to two colors.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ColorId(pub std::num::NonZeroU64);

impl ColorId {
    /// A name that no other color of the process has: `Colored` would be unsound if two colors, which may run at once,
    /// shared one. So names are given out here and by no caller.
    fn fresh() -> Self {
        // std's atomic also under loom: which number a color gets decides nothing.
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Self(std::num::NonZeroU64::new(number).expect("names start at one and do not run out"))
    }
}

/// A serial queue of events. Shared by producers through an `Arc`; run by the holder of its [`Token`].
pub struct ColorQueue {
    id: ColorId,
    /// Index of the core whose ready queue the token goes to.
    core: AtomicU32,
    producers: Producers,
    /// Events taken from the inbox and put in order, not yet run. Touched by the token's holder only.
    taken: UnsafeCell<List>,
}

/// The line that producers write, apart from the holder's. One line, not the two that prefetchers pair: every connection
/// has a color, and most colors have one producer.
#[repr(align(64))]
struct Producers {
    /// Events pushed and not yet taken, newest first.
    inbox: AtomicPtr<Header>,
    /// Events counted and not yet accounted as run. The token exists while this is above zero.
    count: AtomicUsize,
}

/// Singly linked, oldest first.
struct List {
    first: *mut Header,
}

// SAFETY: the raw pointers are events owned by the queue, which are `Send`; `taken` is guarded by the token.
unsafe impl Send for ColorQueue {}
// SAFETY: as above; everything else is atomic.
unsafe impl Sync for ColorQueue {}

/// The right to run a color's events: at most one exists per color.
pub struct Token(Arc<ColorQueue>);

/// What became of a token that was run.
pub enum Activation {
    /// Events remain: the token must go back to a ready queue.
    Again(Token),
    /// The color is empty; the next push makes a new token.
    Empty,
}

/// How much an activation ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Events that ran, panicked ones included.
    pub events: usize,
    /// Events that ended in a panic.
    pub panics: usize,
}

impl ColorQueue {
    /// An empty color with a name of its own, whose token, when it has one, goes to core `core`.
    pub fn new(core: u32) -> Arc<Self> {
        Arc::new(Self {
            id: ColorId::fresh(),
            core: AtomicU32::new(core),
            producers: Producers { inbox: AtomicPtr::new(null_mut()), count: AtomicUsize::new(0) },
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

    /// Events pushed and not yet run; a hint for whoever does not hold the token.
    pub fn len(&self) -> usize {
        self.producers.count.load(Ordering::Relaxed)
    }

    /// Whether nothing is queued; a hint, as [`ColorQueue::len`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Queues `event`. Gives the token when the color was empty: the caller must put it in a ready queue.
    #[must_use = "a token that is dropped strands its color"]
    pub fn push(self: &Arc<Self>, event: Event) -> Option<Token> {
        self.link(event.into_raw());
        // Release: the count covers an event that is linked. Acquire: the new token's holder continues after the last
        // one, whose final subtraction this addition reads.
        if self.producers.count.fetch_add(1, Ordering::AcqRel) == 0 {
            return Some(Token(Arc::clone(self)));
        }
        None
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

impl Token {
    /// The color this token belongs to.
    pub fn color(&self) -> &Arc<ColorQueue> {
        &self.0
    }

    /// Runs at most `batch` events (at least one), oldest first.
    ///
    /// An event that panics is over; its color goes on with the next one.
    pub fn run(self, batch: usize) -> (Ran, Activation) {
        let counted = self.0.producers.count.load(Ordering::Acquire);
        debug_assert!(counted > 0, "a token exists only while its color is counted above zero");
        let most = counted.min(batch.max(1));
        let mut ran = Ran::default();
        {
            let _on_color = colored::enter(self.0.id);
            while ran.events < most {
                let event = self.next();
                ran.events += 1;
                ran.panics += usize::from(panics(|| event.run()));
            }
        }
        (ran, self.settle(ran.events))
    }

    /// Drops every event that is counted, without running it, on this color.
    pub fn discard(self) -> usize {
        let counted = self.0.producers.count.load(Ordering::Acquire);
        {
            let _on_color = colored::enter(self.0.id);
            for _ in 0..counted {
                let event = self.next();
                // A destructor that panics must not keep the others from being dropped.
                panics(|| drop(event));
            }
        }
        match self.settle(counted) {
            Activation::Again(token) => counted + token.discard(),
            Activation::Empty => counted,
        }
    }

    /// The oldest event. To be called at most as often as events were counted: what is counted is linked.
    fn next(&self) -> Event {
        self.0.taken.with_mut(|list| {
            // SAFETY: we hold the token, so nobody else touches the list.
            let list = unsafe { &mut *list };
            if list.first.is_null() {
                // Acquire pairs with the exchange in `link`.
                let newest = self.0.producers.inbox.swap(null_mut(), Ordering::Acquire);
                list.refill(newest);
            }
            list.pop().expect("an event that is counted is linked")
        })
    }

    /// Accounts `ran` events; keeps the token if others are counted.
    fn settle(self, ran: usize) -> Activation {
        // Release: the next holder sees what our events did. Acquire: if events remain, see those that were counted.
        // When this brings the count to zero a new token may exist elsewhere from here on: touch nothing but the Arc.
        if self.0.producers.count.fetch_sub(ran, Ordering::AcqRel) == ran {
            Activation::Empty
        } else {
            Activation::Again(self)
        }
    }
}

impl List {
    /// Takes over a chain that is newest first and reverses it.
    fn refill(&mut self, mut newest: *mut Header) {
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

impl Drop for ColorQueue {
    fn drop(&mut self) {
        // Nobody holds a token (it has an Arc) and nobody pushes: drop what is left, oldest first.
        let newest = self.producers.inbox.swap(null_mut(), Ordering::Acquire);
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
