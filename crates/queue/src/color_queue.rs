//! The queue of a color: the inbox that producers push to, and the events that the holder of the
//! token has taken.
//!
//! Leaves out the count and the tokens: the producers' side is in `color.rs`, the holder's side in
//! `token.rs`. Checked in `model/color.rs`.
#![allow(unsafe_code)]

use crate::{
    canary::{Bug, planted},
    color_head::{ColorHead, HeadKind},
    color_id::ColorId,
    event::{Event, EventHeader},
    queued_events::QueuedEvents,
    sync::{AtomicPtr, Ordering, UnsafeCell},
};
use std::{
    ops::Deref,
    ptr::{NonNull, null_mut},
    sync::Arc,
};

/// A serial queue of events. Producers share the queue through an `Arc`; the holder of the
/// [`Token`](crate::Token) runs the events. `D` is the scheduler's metadata. The struct is not
/// aligned to a cache line of its own. A producer also reads the color's core and changes the
/// reference count, so the whole struct moves between caches together, and fewer lines are better.
#[repr(C)]
pub struct ColorQueue<D: 'static = ()> {
    head: ColorHead<D>,
    /// Events pushed and not yet taken, newest first.
    inbox: AtomicPtr<EventHeader>,
    /// Touched only by the token's holder.
    held: UnsafeCell<HeldSide>,
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

    /// # Safety
    /// The calling thread holds the token and is running an event of the color, so no other access
    /// to the held side is under way.
    #[inline]
    pub(crate) unsafe fn push_own(&self, event: Event) {
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

    /// Whether no event waits in the inbox.
    #[inline]
    pub(crate) fn has_empty_inbox(&self) -> bool {
        self.inbox.load(Ordering::Relaxed).is_null()
    }

    pub(crate) fn link(&self, event: NonNull<EventHeader>) {
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
