//! One event: a type-erased, owning pointer to something that can be run, with the link of the queue it stands in.
//!
//! Two kinds. An [`Event::once`] is made for one run, in memory that is used again (`memory.rs`). A [`Repeating`] event is
//! shared (a task is one): it can be posted again and again without allocation, and its `posted` bit keeps it from standing in a queue
//! twice. Leaves out colors and order: `color.rs`. Checked in `model/repeat.rs` (no lost post) and `tests.rs` (drops).
#![allow(unsafe_code)]

use crate::{
    ColorId,
    canary::{Bug, planted},
    memory,
    resident::Resident,
    sync::{AtomicBool, Ordering},
};
// std's cell also under loom: the link must stay the first bytes of the event.
use std::{
    cell::UnsafeCell,
    mem::ManuallyDrop,
    pin::Pin,
    ptr::NonNull,
    sync::Arc,
    task::{Wake, Waker},
};

/// Code and data that run once, on a color.
pub trait Run: Send + 'static {
    /// Runs to completion; must not block. A panic ends this event and is counted by the color's activation.
    fn run(self);
}

/// What runs each time a [`Repeating`] event comes to its turn.
pub trait Repeat: Send + Sync + Sized + 'static {
    /// What lives on a color in the event's own memory; a task's future.
    type Resident: Send + 'static;

    /// Runs to completion; must not block. Posts that arrive from now on queue the event again.
    fn run(event: &Pin<Arc<Repeating<Self>>>);

    /// Posts the event to its queue: what a [`Waker`] made of it does.
    fn wake(event: &Pin<Arc<Repeating<Self>>>);

    /// It was posted, and is dropped instead of run: with its color, or with the runtime.
    fn dropped(_: &Pin<Arc<Repeating<Self>>>) {}
}

/// What is known of an event without running it: the queue carries it, others give it a meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Label {
    /// Who runs it.
    pub handler: u16,
    /// The core it was posted on.
    pub from: u16,
    /// Time it is expected to take, in nanoseconds, as far as whoever moves colors counts it.
    pub worth_ns: u32,
    /// When it was posted, in whatever unit its poster counts; 0 if nobody wants to know.
    pub posted: u32,
    /// Which event of `from` posted it, as that core numbers them; 0 for none.
    pub cause: u32,
}

/// First field of every event, so that a pointer to one is a pointer to the whole.
#[repr(C)]
pub(crate) struct Header {
    /// Next event in whatever list holds this one. Written by the list's owner only: the pusher before it publishes
    /// the event, then the holder of the color's token.
    pub(crate) next: *mut Header,
    vtable: &'static Vtable,
    label: Label,
}

impl Header {
    fn new(vtable: &'static Vtable) -> Self {
        Self { next: std::ptr::null_mut(), vtable, label: Label::default() }
    }
}

struct Vtable {
    run: unsafe fn(NonNull<Header>),
    discard: unsafe fn(NonNull<Header>),
}

/// An event waiting for its turn. Dropping it without running it cancels it: its data is dropped.
pub struct Event(NonNull<Header>);

// SAFETY: an event owns data that is `Send` (`Run` and `Repeat` demand it), and nobody else reaches it meanwhile.
unsafe impl Send for Event {}

impl Event {
    /// An event that runs `body` once.
    pub fn once<T: Run>(body: T) -> Self {
        Self::once_with(|| body)
    }

    /// An event that runs once what `make` makes. It is made where it will stand: what is copied there by halves has to be
    /// waited for. Should `make` panic, the memory for it is lost.
    // Inlined, or it is copied nevertheless.
    #[inline(always)]
    pub fn once_with<T: Run>(make: impl FnOnce() -> T) -> Self {
        let node = memory::get::<Once<T>>();
        let body = make();
        // SAFETY: the memory is ours and large enough; nothing stands there that could be lost.
        unsafe {
            (&raw mut (*node.as_ptr()).header).write(Header::new(&Once::<T>::VTABLE));
            (&raw mut (*node.as_ptr()).body).write(body);
        }
        Self(node.cast())
    }

    /// Writes `label` on the event.
    pub fn labelled(mut self, label: Label) -> Self {
        // SAFETY: the header is live, and an event that stands in no queue is its owner's alone.
        unsafe { self.0.as_mut() }.label = label;
        self
    }

    /// What is written on the event.
    pub fn label(&self) -> Label {
        // SAFETY: as in `labelled`.
        unsafe { self.0.as_ref() }.label
    }

    /// Runs the event.
    pub fn run(self) {
        let header = self.0;
        std::mem::forget(self);
        // SAFETY: the header is live and owned by us; its vtable was made for its type. `run` takes the ownership.
        unsafe { (header.as_ref().vtable.run)(header) }
    }

    pub(crate) fn into_raw(self) -> NonNull<Header> {
        let header = self.0;
        std::mem::forget(self);
        header
    }

    /// # Safety
    /// `header` came out of [`Event::into_raw`] and no other `Event` has been made of it since.
    pub(crate) unsafe fn from_raw(header: NonNull<Header>) -> Self {
        Self(header)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: as in `run`; `discard` takes the ownership instead.
        unsafe { (self.0.as_ref().vtable.discard)(self.0) }
    }
}

#[repr(C)]
struct Once<T> {
    header: Header,
    body: T,
}

impl<T: Run> Once<T> {
    const VTABLE: Vtable = Vtable { run: Self::run, discard: Self::discard };

    unsafe fn run(header: NonNull<Header>) {
        // SAFETY: as `take` asks: an event is run or discarded, once.
        unsafe { Self::take(header) }.run();
    }

    unsafe fn discard(header: NonNull<Header>) {
        // SAFETY: as above.
        drop(unsafe { Self::take(header) });
    }

    /// Takes the body out and gives the memory back.
    ///
    /// # Safety
    /// `header` is that of an event of this type, which nobody makes use of from now on.
    #[inline(always)]
    unsafe fn take(header: NonNull<Header>) -> T {
        let node = header.cast::<Self>();
        // SAFETY: the vtable is only installed by `Event::once_with::<T>`, which wrote a body there. Nothing in the header
        // has to be dropped.
        unsafe {
            let body = (&raw const (*node.as_ptr()).body).read();
            memory::give_back(node);
            body
        }
    }
}

/// An event that can be posted any number of times and stands in at most one queue.
#[repr(C)]
pub struct Repeating<T: Repeat> {
    header: UnsafeCell<Header>,
    /// Set by whoever posts, cleared by the run before it starts. While set, the event is queued and one strong count
    /// belongs to the queue.
    posted: AtomicBool,
    /// What the event runs on.
    pub body: T,
    /// Pinned as long as the event lives: it is only ever made inside a `Pin<Arc<_>>`.
    resident: Resident<T::Resident>,
}

// SAFETY: `header` is touched only by the one `Event` that the `posted` bit allows; `body` is Send + Sync by bound, and the
// resident is Send by bound and reached only on its color.
unsafe impl<T: Repeat> Send for Repeating<T> {}
// SAFETY: as above.
unsafe impl<T: Repeat> Sync for Repeating<T> {}

impl<T: Repeat> Repeating<T> {
    const VTABLE: Vtable = Vtable { run: Self::run_raw, discard: Self::discard };

    /// A new event, not posted yet, whose resident lives on `color`.
    pub fn new(body: T, color: ColorId, resident: T::Resident) -> Pin<Arc<Self>> {
        let header = UnsafeCell::new(Header::new(&Self::VTABLE));
        let resident = Resident::new(color, resident);
        Arc::pin(Self { header, posted: AtomicBool::new(false), body, resident })
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
        // AcqRel pairs with the swap in `run_raw`: the run that follows sees what happened before any post.
        if self.posted.swap(true, Ordering::AcqRel) {
            return None;
        }
        // SAFETY: it goes on as a raw pointer, of which nothing moves what it points to.
        let shared = unsafe { Pin::into_inner_unchecked(self.clone()) };
        let raw = Arc::into_raw(shared).cast_mut();
        // The header is the first field of a `repr(C)` struct. `into_raw` is never null.
        Some(Event(NonNull::new(raw.cast()).expect("an Arc is never null")))
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
            this.posted.swap(false, Ordering::AcqRel);
        }
        T::run(&this);
        if planted(Bug::ClearAfterRun) {
            this.posted.swap(false, Ordering::AcqRel);
        }
    }

    unsafe fn discard(header: NonNull<Header>) {
        // SAFETY: as in `run_raw`.
        let this = unsafe { Self::posted(header) };
        this.posted.swap(false, Ordering::AcqRel);
        T::dropped(&this);
    }
}

impl<T: Repeat> Wake for Repeating<T> {
    fn wake(self: Arc<Self>) {
        // SAFETY: it was pinned when it was made, and only a waker has it unpinned.
        T::wake(&unsafe { Pin::new_unchecked(self) });
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // SAFETY: as in `wake`; `Pin` is `repr(transparent)`.
        T::wake(unsafe { &*std::ptr::from_ref(self).cast::<Pin<Arc<Self>>>() });
    }
}
