//! A task color: a color with a single event, stored in the event's memory. Most tasks live on an
//! own color.
//!
//! No other event is ever posted to a task color, so the color needs no queue. The mark `POSTED`
//! beside the color's count says that the event waits. The event is made as posted. Later posts set
//! the mark and count in one operation, the run clears the mark, and settling is the same as for a
//! queue. The poster may give a reference to the event to the token. The argument is in
//! `task_color.md`; checked in `model/task_color.rs` (no lost post, one token, exclusion) and
//! `tests.rs`.
#![allow(unsafe_code)]

use crate::{
    canary::{Bug, planted},
    color_head::{ColorHead, HeadKind, TaskColorVtable},
    color_id::ColorId,
    event::Label,
    queued_events::{QueuedEvents, counting},
    sync::Ordering,
    task_cell::{QueuedMark, Spawned, TaskBody, TaskCell},
    token::{ColorRef, Token},
};
use std::{
    mem::{ManuallyDrop, offset_of},
    pin::Pin,
    ptr::NonNull,
    sync::Arc,
};

/// The result of a post to a task color.
pub enum ScheduleOutcome<D: 'static, R = ()> {
    /// The color was empty: the caller must put its token in a ready queue.
    First(Token<D>),
    /// The event runs, and will run again. Contains the caller's reference, if the caller gave a
    /// reference.
    Again(R),
    /// The event waits already: the coming run sees every write that the caller made before.
    Waits,
}

/// The state that a post found.
enum MarkOutcome {
    Empty,
    Running,
    Waiting,
}

impl<D> ColorHead<D> {
    /// Counts the event and marks the event as waiting, unless the mark is set.
    #[inline]
    fn mark(&self, label: impl FnOnce() -> QueuedEvents) -> MarkOutcome {
        let (mut label, mut one) = (Some(label), None);
        let mut before = self.counted.load(Ordering::Relaxed);
        loop {
            let marked = QueuedEvents(before).is_posted();
            let after = if marked {
                before
            } else {
                let count = || label.take().map_or(QueuedEvents(0), |label| label());
                (QueuedEvents(before) + *one.get_or_insert_with(count)).posted().0
            };
            // Release: the run that clears the mark sees everything before any post, including a
            // post that found the mark set. Acquire: the new token's holder continues after the
            // last holder.
            match self.counted.compare_exchange_weak(before, after, counting(), Ordering::Relaxed) {
                Ok(_) if marked => return MarkOutcome::Waiting,
                Ok(_) if QueuedEvents(before).number() == 0 || planted(Bug::SecondToken) => {
                    return MarkOutcome::Empty;
                }
                Ok(_) => return MarkOutcome::Running,
                Err(changed) => before = changed,
            }
        }
    }

    /// The event begins to run, so a later post counts the event again. Returns the count to
    /// subtract after the run.
    #[inline]
    pub(crate) fn begin(&self) -> QueuedEvents {
        // The mark is set, and only this function clears the mark. Acquire pairs with the posts.
        // Release pairs only with the model's order of both.
        let before = QueuedEvents(self.counted.fetch_sub(QueuedEvents::POSTED, counting()));
        if cfg!(any(debug_assertions, loom, shuttle)) {
            assert!(before.is_posted(), "an event that runs was posted");
        }
        before.without_marks()
    }
}

impl<D: Send + Sync + 'static> QueuedMark for ColorHead<D> {
    #[inline]
    fn set(&self) -> bool {
        self.counted.fetch_or(QueuedEvents::AWAY, Ordering::AcqRel) & QueuedEvents::AWAY != 0
    }

    #[inline]
    fn clear(&self) {
        self.counted.fetch_and(!QueuedEvents::AWAY, Ordering::AcqRel);
    }
}

impl<T, D> TaskCell<T>
where
    T: TaskBody<Mark = ColorHead<D>>,
    D: Send + Sync + 'static,
{
    const KIND: HeadKind<D> = HeadKind::TaskColor(TaskColorVtable {
        run: Self::run_task_color,
        drop: Self::drop_task_color,
        label: Self::label_task_color,
        share: Self::share_task_color,
        unshare: Self::unshare_task_color,
    });

    /// A new event that is posted to a task color, and the token, which goes to core `core`: the
    /// caller must put the token in a ready queue.
    #[inline(always)]
    #[must_use = "a token that is dropped strands its color"]
    pub fn with_color(
        core: u32,
        meta: D,
        label: Label,
        body: T,
        slotted: T::Slotted,
    ) -> (Spawned<T>, Token<D>) {
        let id = ColorId::fresh();
        let event = Self::with_mark(ColorHead::new(&Self::KIND, id, core, meta), id, body, slotted);
        // No other thread has the event yet. A thread that gets the token or the event gets it in a
        // way that orders both stores before.
        event.write_label(label);
        event.mark.counted.store(QueuedEvents::event(label).posted().0, Ordering::Relaxed);
        let token = event.clone().into_token();
        (Spawned(event), token)
    }

    /// Posts the event to the task color. `label` is called unless the event waits there already.
    pub fn schedule(self: &Pin<Arc<Self>>, label: impl FnOnce() -> Label) -> ScheduleOutcome<D> {
        match self.mark(label) {
            MarkOutcome::Empty => ScheduleOutcome::First(self.clone().into_token()),
            MarkOutcome::Running => ScheduleOutcome::Again(()),
            MarkOutcome::Waiting => ScheduleOutcome::Waits,
        }
    }

    /// As [`schedule`](Self::schedule), with a reference to the event that becomes the token's.
    pub fn schedule_owned(
        self: Pin<Arc<Self>>,
        label: impl FnOnce() -> Label,
    ) -> ScheduleOutcome<D, Pin<Arc<Self>>> {
        match self.mark(label) {
            MarkOutcome::Empty => ScheduleOutcome::First(self.into_token()),
            MarkOutcome::Running => ScheduleOutcome::Again(self),
            MarkOutcome::Waiting => ScheduleOutcome::Waits,
        }
    }

    #[inline]
    fn mark(&self, label: impl FnOnce() -> Label) -> MarkOutcome {
        self.mark.mark(|| {
            let label = label();
            self.write_label(label);
            QueuedEvents::event(label)
        })
    }

    #[inline]
    fn write_label(&self, label: Label) {
        // SAFETY: the header is live; labels are atomic.
        unsafe { &(*self.header.get()).label }.write(label);
    }

    /// Makes the color's token, after the caller has moved the count from zero.
    fn into_token(self: Pin<Arc<Self>>) -> Token<D> {
        // SAFETY: the Arc continues as a raw pointer, and nothing moves the pointee.
        let raw = Arc::into_raw(unsafe { Pin::into_inner_unchecked(self) }).cast_mut();
        // SAFETY: a field of a live object. The pointer comes from the Arc, so the whole object is
        // reachable through the pointer, which is never null. The reference count goes with the
        // pointer.
        unsafe { Token::new(ColorRef::from_raw(NonNull::new_unchecked(&raw mut (*raw).mark))) }
    }

    /// The event around a color.
    fn around(head: NonNull<ColorHead<D>>) -> *const Self {
        head.as_ptr().cast_const().wrapping_byte_sub(offset_of!(Self, mark)).cast()
    }

    /// # Safety
    /// `head` is a result of `into_token`, and its reference count exists for as long as the result
    /// is used.
    unsafe fn shared(head: NonNull<ColorHead<D>>) -> ManuallyDrop<Pin<Arc<Self>>> {
        // SAFETY: the pointer is an Arc's, and the count is not taken. The Arc was pinned before.
        ManuallyDrop::new(unsafe { Pin::new_unchecked(Arc::from_raw(Self::around(head))) })
    }

    unsafe fn run_task_color(head: NonNull<ColorHead<D>>) {
        // SAFETY: the running token has a reference count.
        let event = unsafe { Self::shared(head) };
        T::run(&event);
    }

    unsafe fn drop_task_color(head: NonNull<ColorHead<D>>) {
        // SAFETY: as in `run_task_color`.
        let event = unsafe { Self::shared(head) };
        T::dropped(&event);
    }

    unsafe fn label_task_color(head: NonNull<ColorHead<D>>) -> Label {
        // SAFETY: as in `run_task_color`; labels are atomic.
        unsafe { &(*(*Self::around(head)).header.get()).label }.read()
    }

    unsafe fn share_task_color(head: NonNull<ColorHead<D>>) {
        // SAFETY: the caller has a reference count.
        unsafe { Arc::increment_strong_count(Self::around(head)) };
    }

    unsafe fn unshare_task_color(head: NonNull<ColorHead<D>>) {
        // SAFETY: the caller has a reference count, and gives it up.
        unsafe { Arc::decrement_strong_count(Self::around(head)) };
    }
}
