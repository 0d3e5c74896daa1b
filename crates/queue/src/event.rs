//! One event: a type-erased, owning pointer to something that can be run, with the link of the queue it stands in.
//!
//! Two kinds. An [`Event::once`] is made for one run, in memory that is used again (`memory.rs`). A [`Repeating`](crate::Repeating)
//! event (`repeating.rs`) is shared, and can be posted again and again. Leaves out colors and order: `color.rs`. Checked in
//! `tests.rs` (drops).
#![allow(unsafe_code)]

use crate::memory;
// std's atomics also under loom: what a label says orders nothing.
use std::{
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

/// Code and data that run once, on a color.
pub trait Run: Send + 'static {
    /// Runs to completion; must not block. A panic ends this event and is counted by the color's activation.
    fn run(self);
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
        let Label { handler, from, worth_ns, posted, cause } = label;
        let who = u64::from(handler) | u64::from(from) << 16 | u64::from(worth_ns) << 32;
        self.0[0].store(who, Ordering::Relaxed);
        self.0[1].store(u64::from(posted) | u64::from(cause) << 32, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn read(&self) -> Label {
        let [who, when] = [&self.0[0], &self.0[1]].map(|word| word.load(Ordering::Relaxed));
        Label {
            handler: who as u16,
            from: (who >> 16) as u16,
            worth_ns: (who >> 32) as u32,
            posted: when as u32,
            cause: (when >> 32) as u32,
        }
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
