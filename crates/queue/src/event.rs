//! An event: a type-erased, owning pointer to a runnable object, with the link for the event's
//! queue.
//!
//! There are two kinds. An [`Event::once`] is made for a single run, in recycled memory
//! (`memory.rs`). A [`Repeating`](crate::Repeating) event (`task_cell.rs`) is shared, and can be
//! posted again and again. Leaves out colors and order: `color.rs`. Checked in `tests.rs` (drops).
#![allow(unsafe_code)]

use crate::memory;
// std's atomics also under loom, because no protocol orders by a label.
use std::{
    fmt,
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

/// Code and data that run once, on a color.
pub trait Run: Send + 'static {
    /// Runs to completion; must not block. A panic ends this event, and the color's batch run
    /// counts the panic.
    fn run(self);
}

/// Metadata of an event, readable without running the event. The queue carries the label and gives
/// the label no meaning. A label is two words, so it travels in registers: memory written in parts
/// and read as a whole causes a store-forwarding stall.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Label {
    /// Handler, core and worth.
    who: u64,
    /// Stamp and cause.
    when: u64,
}

impl Label {
    /// The label of an event that `handler` runs, posted on core `from`, with an expected run time
    /// of `worth_ns` nanoseconds for the scheduler that moves colors.
    #[inline]
    pub fn new(handler: u16, from: u16, worth_ns: u32) -> Self {
        Self { who: u64::from(handler) | u64::from(from) << 16 | u64::from(worth_ns) << 32, when: 0 }
    }

    /// The same label with the time of posting `posted`, in the poster's unit (0 if the time is not
    /// recorded), and `cause`: the number of the posting event on that core (0 for none).
    #[inline]
    pub fn stamped(self, posted: u32, cause: u32) -> Self {
        Self { when: u64::from(posted) | u64::from(cause) << 32, ..self }
    }

    /// The handler that runs the event.
    #[inline]
    pub fn handler(self) -> u16 {
        self.who as u16
    }

    /// The core of the poster.
    #[inline]
    pub fn from(self) -> u16 {
        (self.who >> 16) as u16
    }

    /// Expected run time in nanoseconds.
    #[inline]
    pub fn worth_ns(self) -> u32 {
        (self.who >> 32) as u32
    }

    /// The time of posting.
    #[inline]
    pub fn posted(self) -> u32 {
        self.when as u32
    }

    /// The number of the event that posted this event.
    #[inline]
    pub fn cause(self) -> u32 {
        (self.when >> 32) as u32
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Label")
            .field("handler", &self.handler())
            .field("from", &self.from())
            .field("worth_ns", &self.worth_ns())
            .field("posted", &self.posted())
            .field("cause", &self.cause())
            .finish()
    }
}

/// First field of every event, so that a pointer to the header is a pointer to the whole event.
#[repr(C)]
pub(crate) struct EventHeader {
    /// Next event in the list that holds this event. Written only by the list's owner: the producer
    /// before publishing the event, then the holder of the color's token.
    pub(crate) next: *mut EventHeader,
    vtable: &'static Vtable,
    pub(crate) label: AtomicLabel,
}

impl EventHeader {
    pub(crate) fn new(vtable: &'static Vtable) -> Self {
        Self { next: std::ptr::null_mut(), vtable, label: AtomicLabel::default() }
    }
}

/// A label on an event. If several threads post the event at once (`task_color.rs`), the label may
/// mix parts of two labels.
#[derive(Default)]
pub(crate) struct AtomicLabel([AtomicU64; 2]);

impl AtomicLabel {
    #[inline]
    pub(crate) fn write(&self, label: Label) {
        self.0[0].store(label.who, Ordering::Relaxed);
        self.0[1].store(label.when, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn read(&self) -> Label {
        let [who, when] = [&self.0[0], &self.0[1]].map(|word| word.load(Ordering::Relaxed));
        Label { who, when }
    }
}

pub(crate) struct Vtable {
    pub(crate) run: unsafe fn(NonNull<EventHeader>),
    pub(crate) discard: unsafe fn(NonNull<EventHeader>),
}

/// An event that waits to run. Dropping the event without a run cancels the event and drops the
/// data.
pub struct Event(NonNull<EventHeader>);

// SAFETY: an event owns data that is `Send` (`Run` and `Repeat` demand it), and no other thread
// reaches the unshared parts.
unsafe impl Send for Event {}

impl Event {
    /// An event that runs `body` once.
    pub fn once<T: Run>(body: T) -> Self {
        Self::once_with(|| body)
    }

    /// An event that runs the result of `make` once. `make` writes the body in place, because a
    /// body copied there in halves causes a store-forwarding stall. If `make` panics, the memory
    /// leaks.
    // Inlined, because otherwise the compiler copies the body nevertheless.
    #[inline(always)]
    pub fn once_with<T: Run>(make: impl FnOnce() -> T) -> Self {
        let node = memory::get::<Once<T>>();
        let body = make();
        // SAFETY: this function owns the memory, which is large enough and holds no value that
        // could be lost.
        unsafe {
            (&raw mut (*node.as_ptr()).header).write(EventHeader::new(&Once::<T>::VTABLE));
            (&raw mut (*node.as_ptr()).body).write(body);
        }
        Self(node.cast())
    }

    /// Writes `label` on the event.
    pub fn labelled(self, label: Label) -> Self {
        // SAFETY: the header is live; labels are atomic.
        unsafe { &(*self.0.as_ptr()).label }.write(label);
        self
    }

    /// The event's label.
    pub fn label(&self) -> Label {
        // SAFETY: as in `labelled`.
        unsafe { &(*self.0.as_ptr()).label }.read()
    }

    /// Runs the event.
    pub fn run(self) {
        let header = self.0;
        std::mem::forget(self);
        // SAFETY: the header is live and owned here; the vtable matches the event's type. `run`
        // takes the ownership.
        unsafe { ((*header.as_ptr()).vtable.run)(header) }
    }

    pub(crate) fn into_raw(self) -> NonNull<EventHeader> {
        let header = self.0;
        std::mem::forget(self);
        header
    }

    /// # Safety
    /// `header` is a result of [`Event::into_raw`], or belongs to a live event and comes with the
    /// share in the event that the vtable expects. No other `Event` has been made of the header
    /// since.
    pub(crate) unsafe fn from_raw(header: NonNull<EventHeader>) -> Self {
        Self(header)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: as in `run`; `discard` takes the ownership instead.
        unsafe { ((*self.0.as_ptr()).vtable.discard)(self.0) }
    }
}

#[repr(C)]
struct Once<T> {
    header: EventHeader,
    body: T,
}

impl<T: Run> Once<T> {
    const VTABLE: Vtable = Vtable { run: Self::run, discard: Self::discard };

    unsafe fn run(header: NonNull<EventHeader>) {
        // SAFETY: as `take` asks: an event is run or discarded, once.
        unsafe { Self::take(header) }.run();
    }

    unsafe fn discard(header: NonNull<EventHeader>) {
        // SAFETY: as above.
        drop(unsafe { Self::take(header) });
    }

    /// Takes the body out and recycles the memory.
    ///
    /// # Safety
    /// `header` belongs to an event of this type, and no thread uses the event from now on.
    #[inline(always)]
    unsafe fn take(header: NonNull<EventHeader>) -> T {
        let node = header.cast::<Self>();
        // SAFETY: only `Event::once_with::<T>` installs this vtable, after writing a body there.
        // The header needs no drop.
        unsafe {
            let body = (&raw const (*node.as_ptr()).body).read();
            memory::give_back(node);
            body
        }
    }
}
