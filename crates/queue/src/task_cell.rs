//! Events that are posted again and again without allocation, such as tasks.
//!
//! A [`TaskCell`] event is shared, and a mark keeps the event from being in two queues. The event
//! lives on a shared color, or has a task color in the same memory (`task_color.rs`). An event with
//! an own color can also be posted to other colors, as a task that has left its color is. Checked
//! in `model/task_cell.rs` (no lost post) and `tests.rs` (drops).
#![allow(unsafe_code)]

use crate::{
    canary::{Bug, planted},
    color_id::ColorId,
    event::{Event, EventHeader, Vtable},
    future_slot::FutureSlot,
    result_cell::{Join, Oneshot, ResultCell},
    sync::{AtomicBool, Ordering},
};
// std's cell also under loom, because the link must stay the first bytes of the event.
use std::{
    cell::UnsafeCell,
    mem::ManuallyDrop,
    ops::Deref,
    pin::Pin,
    ptr::NonNull,
    sync::Arc,
    task::{Wake, Waker},
};

/// The code that runs each time a [`TaskCell`] event is run.
pub trait TaskBody: Send + Sync + Sized + 'static {
    /// The part of the color that is stored in the event: a [`ColorHead`](crate::ColorHead) for a
    /// task color, otherwise [`AtomicQueuedMark`].
    type Mark: QueuedMark;

    /// The value that lives on a color in the event's memory, such as a task's future.
    type Slotted: Send + 'static;

    /// The result for the receiver that waits for the end, such as a task's result.
    type Output: Send + 'static;

    /// Runs to completion; must not block. Posts that arrive from now on queue the event again.
    fn run(event: &Pin<Arc<TaskCell<Self>>>);

    /// Posts the event to the event's queue, as a [`Waker`] of the event does.
    fn wake(event: &Pin<Arc<TaskCell<Self>>>);

    /// As [`wake`](Self::wake), with a reference that the caller needs no longer.
    fn wake_owned(event: Pin<Arc<TaskCell<Self>>>) {
        Self::wake(&event);
    }

    /// Asks the event to end soon, if the event can.
    fn cancel(_: &Pin<Arc<TaskCell<Self>>>) {}

    /// The event was posted, and is dropped instead of run: with the color, or with the runtime.
    fn dropped(_: &Pin<Arc<TaskCell<Self>>>) {}
}

/// Whether an event is in the queue of a shared color: the poster sets the mark, and the run clears
/// the mark before running. While the mark is set, the queue owns a strong count.
pub trait QueuedMark: Send + Sync + 'static {
    /// Sets the mark. Returns whether the mark was set.
    fn set(&self) -> bool;

    /// Clears the mark.
    fn clear(&self);
}

/// The mark of an event without a color of its own.
#[derive(Default)]
pub struct AtomicQueuedMark(AtomicBool);

impl QueuedMark for AtomicQueuedMark {
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
pub struct TaskCell<T: TaskBody> {
    pub(crate) header: UnsafeCell<EventHeader>,
    /// The event's result. Stored here, because the receiver touches only this field and the
    /// reference counts, which precede the header.
    result_cell: ResultCell<T::Output>,
    /// The event's part of the color, and the mark that the event is posted.
    pub mark: T::Mark,
    /// The data of the event.
    pub body: T,
    /// Pinned for the event's whole life, because an event is only ever made inside a
    /// `Pin<Arc<_>>`.
    future_slot: FutureSlot<T::Slotted>,
}

// SAFETY: the header's label is atomic, and only the single `Event` that the mark allows touches
// the rest of `header`. `mark` and `body` are Send + Sync by bound, `result_cell` is because its
// value is Send, and the slotted value is Send by bound and reached only on the color.
unsafe impl<T: TaskBody> Send for TaskCell<T> {}
// SAFETY: as above.
unsafe impl<T: TaskBody> Sync for TaskCell<T> {}

impl<T: TaskBody<Mark = AtomicQueuedMark>> TaskCell<T> {
    /// A new event, not posted yet, whose slotted value lives on `color`.
    pub fn on_color(body: T, color: ColorId, slotted: T::Slotted) -> Spawned<T> {
        Spawned(Self::with_mark(AtomicQueuedMark::default(), color, body, slotted))
    }
}

impl<T: TaskBody> TaskCell<T> {
    const VTABLE: Vtable = Vtable { run: Self::run_raw, discard: Self::discard };

    // Inlined, because otherwise the compiler copies the event to its destination.
    #[inline(always)]
    pub(crate) fn with_mark(mark: T::Mark, color: ColorId, body: T, slotted: T::Slotted) -> Pin<Arc<Self>> {
        let place = Arc::<Self>::new_uninit();
        let header = UnsafeCell::new(EventHeader::new(&Self::VTABLE));
        let future_slot = FutureSlot::new(color, slotted);
        let event = Self { header, result_cell: ResultCell::new(), mark, body, future_slot };
        // SAFETY: no other thread has this memory yet. The event is written in place, because
        // `Arc::new` makes the event elsewhere and copies all of it.
        let place = unsafe {
            Arc::as_ptr(&place).cast_mut().cast::<Self>().write(event);
            place.assume_init()
        };
        // SAFETY: nothing ever moves the event out of the Arc.
        unsafe { Pin::new_unchecked(place) }
    }

    /// Sends `output` to the receiver that waits for the event's end, if nothing was sent before.
    #[inline]
    pub fn complete(&self, output: T::Output) {
        self.result_cell.complete(output);
    }

    /// The value that lives in the event.
    pub fn future_slot(self: Pin<&Self>) -> Pin<&FutureSlot<T::Slotted>> {
        // SAFETY: a field of a pinned object, never moved out, because this is the only access to
        // the field.
        unsafe { self.map_unchecked(|event| &event.future_slot) }
    }

    /// A waker of the event for as long as `f` runs, without a reference count.
    pub fn with_waker<R>(self: &Pin<Arc<Self>>, f: impl FnOnce(&Waker) -> R) -> R {
        // SAFETY: `Pin` is `repr(transparent)`; nothing moves the value out of the shared Arc.
        let shared = unsafe { &*std::ptr::from_ref(self).cast::<Arc<Self>>() };
        // SAFETY: the pointer is an `Arc`'s, and the count is not taken, because the waker is never
        // dropped. `self` outlives the waker.
        let waker = ManuallyDrop::new(Waker::from(unsafe { Arc::from_raw(Arc::as_ptr(shared)) }));
        f(&waker)
    }

    /// The event to push. None if the event is in a queue already: the coming run will see every
    /// write that the caller made before this call.
    pub fn post(self: &Pin<Arc<Self>>) -> Option<Event> {
        // AcqRel pairs with the AcqRel of `clear` in `run_raw`: the next run sees everything that
        // happened before any post.
        if self.mark.set() {
            return None;
        }
        // SAFETY: the Arc continues as a raw pointer, and nothing moves the pointee.
        let shared = unsafe { Pin::into_inner_unchecked(self.clone()) };
        let raw = Arc::into_raw(shared).cast_mut();
        // The header is the first field of a `repr(C)` struct. `into_raw` is never null.
        let header = NonNull::new(raw.cast()).expect("an Arc is never null");
        // SAFETY: the header is live, and the vtable releases the reference count that goes with
        // the event.
        Some(unsafe { Event::from_raw(header) })
    }

    /// # Safety
    /// `post` gave `header` to an event, which has not been used since.
    unsafe fn posted(header: NonNull<EventHeader>) -> Pin<Arc<Self>> {
        // SAFETY: `post` made this pointer from `Arc::into_raw` and gave the reference count to the
        // event. The Arc was pinned then.
        unsafe { Pin::new_unchecked(Arc::from_raw(header.cast::<Self>().as_ptr())) }
    }

    unsafe fn run_raw(header: NonNull<EventHeader>) {
        // SAFETY: an event is run or discarded, once.
        let this = unsafe { Self::posted(header) };
        // Acquire: this run sees every write before the posts that found the bit set. Release: a
        // post that finds the bit clear reuses the link, which was read before this point.
        if !planted(Bug::ClearAfterRun) {
            this.mark.clear();
        }
        T::run(&this);
        if planted(Bug::ClearAfterRun) {
            this.mark.clear();
        }
    }

    unsafe fn discard(header: NonNull<EventHeader>) {
        // SAFETY: as in `run_raw`.
        let this = unsafe { Self::posted(header) };
        this.mark.clear();
        T::dropped(&this);
    }
}

impl<T: TaskBody> Oneshot<T::Output> for TaskCell<T> {
    #[inline]
    fn result_cell(&self) -> &ResultCell<T::Output> {
        &self.result_cell
    }

    fn cancel(self: Pin<Arc<Self>>) {
        T::cancel(&self);
    }

    fn wake(self: Pin<Arc<Self>>) {
        T::wake(&self);
    }
}

/// A new event. The owner may wait for the event's end.
pub struct Spawned<T: TaskBody>(pub(crate) Pin<Arc<TaskCell<T>>>);

impl<T: TaskBody> Spawned<T> {
    /// The receiver of the event's result.
    #[inline]
    pub fn join(self) -> Join<T::Output> {
        Join::new(self.0)
    }
}

impl<T: TaskBody> Deref for Spawned<T> {
    type Target = Pin<Arc<TaskCell<T>>>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T: TaskBody> Wake for TaskCell<T> {
    fn wake(self: Arc<Self>) {
        // SAFETY: the event was pinned when it was made, and only a waker has an unpinned Arc.
        T::wake_owned(unsafe { Pin::new_unchecked(self) });
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // SAFETY: as in `wake`; `Pin` is `repr(transparent)`.
        T::wake(unsafe { &*std::ptr::from_ref(self).cast::<Pin<Arc<Self>>>() });
    }
}
