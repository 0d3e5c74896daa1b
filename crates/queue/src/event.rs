//! One event: a type-erased, owning pointer to something that can be run, with the link of the queue it stands in.
//!
//! Two kinds. An [`Event::once`] is made for one run, in memory that is used again (`memory.rs`). A [`Repeating`](crate::Repeating)
//! event (`repeating.rs`) is shared, and can be posted again and again. Leaves out colors and order: `color.rs`. Checked in
//! `tests.rs` (drops).
#![allow(unsafe_code)]

use crate::memory;
// std's atomics also under loom: what a label says orders nothing.
use std::{
    fmt,
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

/// Code and data that run once, on a color.
pub trait Run: Send + 'static {
    /// Runs to completion; must not block. A panic ends this event and is counted by the color's activation.
    fn run(self);
}

/// What is known of an event without running it: the queue carries it, others give it a meaning. Two words, so that it goes from
/// hand to hand in registers: what is written to memory in parts and read as a whole has to be waited for.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Label {
    /// Handler, core and worth.
    who: u64,
    /// Stamp and cause.
    when: u64,
}

impl Label {
    /// Of an event that `handler` runs, posted on core `from`, and expected to take `worth_ns` nanoseconds, as far as whoever
    /// moves colors counts it.
    #[inline]
    pub fn new(handler: u16, from: u16, worth_ns: u32) -> Self {
        Self { who: u64::from(handler) | u64::from(from) << 16 | u64::from(worth_ns) << 32, when: 0 }
    }

    /// The same, posted at `posted`, in whatever unit its poster counts, 0 if nobody wants to know; and by the event of that core
    /// which it numbers `cause`, 0 for none.
    #[inline]
    pub fn stamped(self, posted: u32, cause: u32) -> Self {
        Self { when: u64::from(posted) | u64::from(cause) << 32, ..self }
    }

    /// Who runs it.
    #[inline]
    pub fn handler(self) -> u16 {
        self.who as u16
    }

    /// The core it was posted on.
    #[inline]
    pub fn from(self) -> u16 {
        (self.who >> 16) as u16
    }

    /// Time it is expected to take, in nanoseconds.
    #[inline]
    pub fn worth_ns(self) -> u32 {
        (self.who >> 32) as u32
    }

    /// When it was posted.
    #[inline]
    pub fn posted(self) -> u32 {
        self.when as u32
    }

    /// Which event posted it.
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

/// First field of every event, so that a pointer to one is a pointer to the whole.
#[repr(C)]
pub(crate) struct Header {
    /// Next event in whatever list holds this one. Written by the list's owner only: the pusher before it publishes
    /// the event, then the holder of the color's token.
    pub(crate) next: *mut Header,
    vtable: &'static Vtable,
    pub(crate) label: Written,
}

impl Header {
    pub(crate) fn new(vtable: &'static Vtable) -> Self {
        Self { next: std::ptr::null_mut(), vtable, label: Written::default() }
    }
}

/// A label on an event. Of an event that several may post at once (`own.rs`) it may be parts of two of theirs.
#[derive(Default)]
pub(crate) struct Written([AtomicU64; 2]);

impl Written {
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
    pub(crate) run: unsafe fn(NonNull<Header>),
    pub(crate) discard: unsafe fn(NonNull<Header>),
}

/// An event waiting for its turn. Dropping it without running it cancels it: its data is dropped.
pub struct Event(NonNull<Header>);

// SAFETY: an event owns data that is `Send` (`Run` and `Repeat` demand it), and nobody else reaches what is not shared.
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
    pub fn labelled(self, label: Label) -> Self {
        // SAFETY: the header is live; labels are atomic.
        unsafe { &(*self.0.as_ptr()).label }.write(label);
        self
    }

    /// What is written on the event.
    pub fn label(&self) -> Label {
        // SAFETY: as in `labelled`.
        unsafe { &(*self.0.as_ptr()).label }.read()
    }

    /// Runs the event.
    pub fn run(self) {
        let header = self.0;
        std::mem::forget(self);
        // SAFETY: the header is live and owned by us; its vtable was made for its type. `run` takes the ownership.
        unsafe { ((*header.as_ptr()).vtable.run)(header) }
    }

    pub(crate) fn into_raw(self) -> NonNull<Header> {
        let header = self.0;
        std::mem::forget(self);
        header
    }

    /// # Safety
    /// `header` came out of [`Event::into_raw`], or is that of a live event of which it owns a part, as its vtable has it; and no
    /// other `Event` has been made of it since.
    pub(crate) unsafe fn from_raw(header: NonNull<Header>) -> Self {
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
