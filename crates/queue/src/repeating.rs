//! Events that are posted again and again without allocation: a task is one.
//!
//! A [`Repeating`] event is shared, and its mark keeps it from standing in a queue twice. It lives on a color that others
//! post to as well, or has one of its own in the same memory (`own.rs`); also then it can be posted to others, as a task that
//! has left its color is. Checked in `model/repeat.rs` (no lost post) and `tests.rs` (drops).
#![allow(unsafe_code)]

use crate::{
    ColorId,
    canary::{Bug, planted},
    event::{Event, Header, Vtable},
    outcome::{Join, Joined, Outcome},
    resident::Resident,
    sync::{AtomicBool, Ordering},
};
// std's cell also under loom: the link must stay the first bytes of the event.
use std::{
    cell::UnsafeCell,
    mem::ManuallyDrop,
    ops::Deref,
    pin::Pin,
    ptr::NonNull,
    sync::Arc,
    task::{Wake, Waker},
};

/// What runs each time a [`Repeating`] event comes to its turn.
pub trait Repeat: Send + Sync + Sized + 'static {
    /// What of its color stands in the event itself: a [`Head`](crate::Head) if the color is its own, otherwise [`Posted`].
    type Home: Mark;

    /// What lives on a color in the event's own memory; a task's future.
    type Resident: Send + 'static;

    /// What it leaves for whoever waits for its end; a task's result.
    type Output: Send + 'static;

    /// Runs to completion; must not block. Posts that arrive from now on queue the event again.
    fn run(event: &Pin<Arc<Repeating<Self>>>);

    /// Posts the event to its queue: what a [`Waker`] made of it does.
    fn wake(event: &Pin<Arc<Repeating<Self>>>);

    /// As [`wake`](Self::wake), with a share in the event that the caller needs no longer.
    fn wake_owned(event: Pin<Arc<Repeating<Self>>>) {
        Self::wake(&event);
    }

    /// Has it end soon, if it can.
    fn cancel(_: &Pin<Arc<Repeating<Self>>>) {}

    /// It was posted, and is dropped instead of run: with its color, or with the runtime.
    fn dropped(_: &Pin<Arc<Repeating<Self>>>) {}
}

/// Whether an event stands in the queue of a color that others use too: set by whoever posts, cleared by the run before it
/// starts. While it is set one strong count belongs to the queue.
pub trait Mark: Send + Sync + 'static {
    /// Sets the mark; whether it was set.
    fn set(&self) -> bool;

    /// Takes it away.
    fn clear(&self);
}

/// The mark of an event without a color of its own.
#[derive(Default)]
pub struct Posted(AtomicBool);

impl Mark for Posted {
    #[inline]
    fn set(&self) -> bool {
        self.0.swap(true, Ordering::AcqRel)
    }

    #[inline]
    fn clear(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }
}

/// An event that can be posted any number of times and stands in at most one queue.
#[repr(C)]
pub struct Repeating<T: Repeat> {
    pub(crate) header: UnsafeCell<Header>,
    /// What it leaves. Here, since whoever asks for it touches the counts, which stand before the header, and nothing else.
    outcome: Outcome<T::Output>,
    /// What of its color stands here, and the mark that it is posted.
    pub home: T::Home,
    /// What the event runs on.
    pub body: T,
    /// Pinned as long as the event lives: it is only ever made inside a `Pin<Arc<_>>`.
    resident: Resident<T::Resident>,
}

// SAFETY: of `header` the label is atomic and the rest is touched only by the one `Event` that the mark allows; `home`
// and `body` are Send + Sync by bound, `outcome` is by that of what it leaves, and the resident is Send by bound and reached only on its color.
unsafe impl<T: Repeat> Send for Repeating<T> {}
// SAFETY: as above.
unsafe impl<T: Repeat> Sync for Repeating<T> {}

impl<T: Repeat<Home = Posted>> Repeating<T> {
    /// A new event, not posted yet, whose resident lives on `color`.
    pub fn on_color(body: T, color: ColorId, resident: T::Resident) -> Spawned<T> {
        Spawned(Self::at_home(Posted::default(), color, body, resident))
    }
}

impl<T: Repeat> Repeating<T> {
    const VTABLE: Vtable = Vtable { run: Self::run_raw, discard: Self::discard };

    // Inlined, or what is made here is copied to where it will stand.
    #[inline(always)]
    pub(crate) fn at_home(home: T::Home, color: ColorId, body: T, resident: T::Resident) -> Pin<Arc<Self>> {
        let place = Arc::<Self>::new_uninit();
        let header = UnsafeCell::new(Header::new(&Self::VTABLE));
        let resident = Resident::new(color, resident);
        let event = Self { header, outcome: Outcome::new(), home, body, resident };
        // SAFETY: nobody else has this memory yet. Written where it stands: `Arc::new` makes it elsewhere and copies all of it.
        let place = unsafe {
            Arc::as_ptr(&place).cast_mut().cast::<Self>().write(event);
            place.assume_init()
        };
        // SAFETY: it is never moved out of the Arc.
        unsafe { Pin::new_unchecked(place) }
    }

    /// Leaves `output` for whoever waits for the event's end, if nothing was left before.
    #[inline]
    pub fn complete(&self, output: T::Output) {
        self.outcome.complete(output);
    }

    /// What lives in the event.
    pub fn resident(self: Pin<&Self>) -> Pin<&Resident<T::Resident>> {
        // SAFETY: a field of something pinned that is never moved out of it: there is no way to it but this.
        unsafe { self.map_unchecked(|event| &event.resident) }
    }

    /// A waker of the event, without a share in its memory: for as long as `f` runs.
    pub fn with_waker<R>(self: &Pin<Arc<Self>>, f: impl FnOnce(&Waker) -> R) -> R {
        // SAFETY: `Pin` is `repr(transparent)`; nothing is moved out of what is shared.
        let shared = unsafe { &*std::ptr::from_ref(self).cast::<Arc<Self>>() };
        // SAFETY: the pointer is an `Arc`'s, whose count is not taken: the waker is never dropped. `self` outlives it.
        let waker = ManuallyDrop::new(Waker::from(unsafe { Arc::from_raw(Arc::as_ptr(shared)) }));
        f(&waker)
    }

    /// The event to push, unless it stands in a queue already: then its coming run will see what the caller did
    /// before this call.
    pub fn post(self: &Pin<Arc<Self>>) -> Option<Event> {
        // Its AcqRel pairs with that of `clear` in `run_raw`: the run that follows sees what happened before any post.
        if self.home.set() {
            return None;
        }
        // SAFETY: it goes on as a raw pointer, of which nothing moves what it points to.
        let shared = unsafe { Pin::into_inner_unchecked(self.clone()) };
        let raw = Arc::into_raw(shared).cast_mut();
        // The header is the first field of a `repr(C)` struct. `into_raw` is never null.
        let header = NonNull::new(raw.cast()).expect("an Arc is never null");
        // SAFETY: the header is live; its vtable takes the count that goes with the event.
        Some(unsafe { Event::from_raw(header) })
    }

    /// # Safety
    /// `header` is what `post` gave to an event, which has not been made use of since.
    unsafe fn posted(header: NonNull<Header>) -> Pin<Arc<Self>> {
        // SAFETY: `post` made this pointer from `Arc::into_raw` and gave its count to the event. It was pinned then.
        unsafe { Pin::new_unchecked(Arc::from_raw(header.cast::<Self>().as_ptr())) }
    }

    unsafe fn run_raw(header: NonNull<Header>) {
        // SAFETY: an event is run or discarded, once.
        let this = unsafe { Self::posted(header) };
        // Acquire: see what was done before the posts that found the bit set. Release: a post that finds it clear
        // reuses the link, which was read before this point.
        if !planted(Bug::ClearAfterRun) {
            this.home.clear();
        }
        T::run(&this);
        if planted(Bug::ClearAfterRun) {
            this.home.clear();
        }
    }

    unsafe fn discard(header: NonNull<Header>) {
        // SAFETY: as in `run_raw`.
        let this = unsafe { Self::posted(header) };
        this.home.clear();
        T::dropped(&this);
    }
}

impl<T: Repeat> Joined<T::Output> for Repeating<T> {
    #[inline]
    fn outcome(&self) -> &Outcome<T::Output> {
        &self.outcome
    }

    fn cancel(self: Pin<Arc<Self>>) {
        T::cancel(&self);
    }

    fn wake(self: Pin<Arc<Self>>) {
        T::wake(&self);
    }
}

/// An event that was just made: whoever has this may wait for its end.
pub struct Spawned<T: Repeat>(pub(crate) Pin<Arc<Repeating<T>>>);

impl<T: Repeat> Spawned<T> {
    /// The one who waits for its end.
    #[inline]
    pub fn join(self) -> Join<T::Output> {
        Join::new(self.0)
    }
}

impl<T: Repeat> Deref for Spawned<T> {
    type Target = Pin<Arc<Repeating<T>>>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T: Repeat> Wake for Repeating<T> {
    fn wake(self: Arc<Self>) {
        // SAFETY: it was pinned when it was made, and only a waker has it unpinned.
        T::wake_owned(unsafe { Pin::new_unchecked(self) });
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // SAFETY: as in `wake`; `Pin` is `repr(transparent)`.
        T::wake(unsafe { &*std::ptr::from_ref(self).cast::<Pin<Arc<Self>>>() });
    }
}
