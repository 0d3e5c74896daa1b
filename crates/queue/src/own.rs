//! An own color: a color with a single event, stored in the event's memory. Most tasks live on an
//! own color.
//!
//! No other event is ever posted to an own color, so the color needs no queue. The mark `POSTED`
//! beside the color's count says that the event waits. The event is made as posted. Later posts set
//! the mark and count in one operation, the run clears the mark, and settling is the same as for a
//! queue. The poster may give a reference to the event to the token. The argument is in `own.md`;
//! checked in `model/own.rs` (no lost post, one token, exclusion) and `tests.rs`.
#![allow(unsafe_code)]

use crate::{
    canary::{Bug, planted},
    color::{ColorId, Counted, counting},
    event::Label,
    repeating::{Mark, Repeat, Repeating, Spawned},
    sync::Ordering,
    token::{ColorRef, Head, Kind, Token},
};
use std::{
    mem::{ManuallyDrop, offset_of},
    pin::Pin,
    ptr::NonNull,
    sync::Arc,
};

/// The operations of a token on the event around the color.
pub(crate) struct Own<D: 'static> {
    pub(crate) run: unsafe fn(NonNull<Head<D>>),
    pub(crate) drop: unsafe fn(NonNull<Head<D>>),
    pub(crate) label: unsafe fn(NonNull<Head<D>>) -> Label,
    pub(crate) share: unsafe fn(NonNull<Head<D>>),
    pub(crate) let_go: unsafe fn(NonNull<Head<D>>),
}

/// The result of a post to an event's own color.
pub enum Called<D: 'static, R = ()> {
    /// The color was empty: the caller must put its token in a ready queue.
    First(Token<D>),
    /// The event runs, and will run again. Contains the caller's reference, if the caller gave a
    /// reference.
    Again(R),
    /// The event waits already: the coming run sees every write that the caller made before.
    Waits,
}

/// The state that a post found.
enum Found {
    Empty,
    Running,
    Waiting,
}

impl<D> Head<D> {
    /// Counts the event and marks the event as waiting, unless the mark is set.
    #[inline]
    fn mark(&self, label: impl FnOnce() -> Counted) -> Found {
        let (mut label, mut one) = (Some(label), None);
        let mut before = self.counted.load(Ordering::Relaxed);
        loop {
            let marked = Counted(before).is_posted();
            let after = if marked {
                before
            } else {
                let count = || label.take().map_or(Counted(0), |label| label());
                (Counted(before) + *one.get_or_insert_with(count)).posted().0
            };
            // Release: the run that clears the mark sees everything before any post, including a
            // post that found the mark set. Acquire: the new token's holder continues after the
            // last holder.
            match self.counted.compare_exchange_weak(before, after, counting(), Ordering::Relaxed) {
                Ok(_) if marked => return Found::Waiting,
                Ok(_) if Counted(before).number() == 0 || planted(Bug::SecondToken) => return Found::Empty,
                Ok(_) => return Found::Running,
                Err(changed) => before = changed,
            }
        }
    }

    /// The event begins to run, so a later post counts the event again. Returns the count to
    /// subtract after the run.
    #[inline]
    pub(crate) fn begin(&self) -> Counted {
        // The mark is set, and only this function clears the mark. Acquire pairs with the posts.
        // Release pairs only with the model's order of both.
        let before = Counted(self.counted.fetch_sub(Counted::POSTED, counting()));
        if cfg!(any(debug_assertions, loom, shuttle)) {
            assert!(before.is_posted(), "an event that runs was posted");
        }
        before.without_marks()
    }
}

impl<D: Send + Sync + 'static> Mark for Head<D> {
    #[inline]
    fn set(&self) -> bool {
        self.counted.fetch_or(Counted::AWAY, Ordering::AcqRel) & Counted::AWAY != 0
    }

    #[inline]
    fn clear(&self) {
        self.counted.fetch_and(!Counted::AWAY, Ordering::AcqRel);
    }
}

impl<T, D> Repeating<T>
where
    T: Repeat<Home = Head<D>>,
    D: Send + Sync + 'static,
{
    const KIND: Kind<D> = Kind::Own(Own {
        run: Self::run_own,
        drop: Self::drop_own,
        label: Self::label_own,
        share: Self::share_own,
        let_go: Self::let_go_own,
    });

    /// A new event that is posted to an own color, and the token, which goes to core `core`: the
    /// caller must put the token in a ready queue.
    #[inline(always)]
    #[must_use = "a token that is dropped strands its color"]
    pub fn with_color(
        core: u32,
        about: D,
        label: Label,
        body: T,
        resident: T::Resident,
    ) -> (Spawned<T>, Token<D>) {
        let id = ColorId::fresh();
        let event = Self::at_home(Head::new(&Self::KIND, id, core, about), id, body, resident);
        // No other thread has the event yet. A thread that gets the token or the event gets it in a
        // way that orders both stores before.
        event.write_label(label);
        event.home.counted.store(Counted::event(label).posted().0, Ordering::Relaxed);
        let token = event.clone().into_token();
        (Spawned(event), token)
    }

    /// Posts the event to the own color. `label` is called unless the event waits there already.
    pub fn call(self: &Pin<Arc<Self>>, label: impl FnOnce() -> Label) -> Called<D> {
        match self.mark(label) {
            Found::Empty => Called::First(self.clone().into_token()),
            Found::Running => Called::Again(()),
            Found::Waiting => Called::Waits,
        }
    }

    /// As [`call`](Self::call), with a reference to the event that becomes the token's.
    pub fn call_owned(self: Pin<Arc<Self>>, label: impl FnOnce() -> Label) -> Called<D, Pin<Arc<Self>>> {
        match self.mark(label) {
            Found::Empty => Called::First(self.into_token()),
            Found::Running => Called::Again(self),
            Found::Waiting => Called::Waits,
        }
    }

    #[inline]
    fn mark(&self, label: impl FnOnce() -> Label) -> Found {
        self.home.mark(|| {
            let label = label();
            self.write_label(label);
            Counted::event(label)
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
        unsafe { Token::new(ColorRef::from_raw(NonNull::new_unchecked(&raw mut (*raw).home))) }
    }

    /// The event around a color.
    fn around(head: NonNull<Head<D>>) -> *const Self {
        head.as_ptr().cast_const().wrapping_byte_sub(offset_of!(Self, home)).cast()
    }

    /// # Safety
    /// `head` is a result of `into_token`, and its reference count exists for as long as the result
    /// is used.
    unsafe fn shared(head: NonNull<Head<D>>) -> ManuallyDrop<Pin<Arc<Self>>> {
        // SAFETY: the pointer is an Arc's, and the count is not taken. The Arc was pinned before.
        ManuallyDrop::new(unsafe { Pin::new_unchecked(Arc::from_raw(Self::around(head))) })
    }

    unsafe fn run_own(head: NonNull<Head<D>>) {
        // SAFETY: the running token has a reference count.
        let event = unsafe { Self::shared(head) };
        T::run(&event);
    }

    unsafe fn drop_own(head: NonNull<Head<D>>) {
        // SAFETY: as in `run_own`.
        let event = unsafe { Self::shared(head) };
        T::dropped(&event);
    }

    unsafe fn label_own(head: NonNull<Head<D>>) -> Label {
        // SAFETY: as in `run_own`; labels are atomic.
        unsafe { &(*(*Self::around(head)).header.get()).label }.read()
    }

    unsafe fn share_own(head: NonNull<Head<D>>) {
        // SAFETY: the caller has a reference count.
        unsafe { Arc::increment_strong_count(Self::around(head)) };
    }

    unsafe fn let_go_own(head: NonNull<Head<D>>) {
        // SAFETY: the caller has a reference count, and gives it up.
        unsafe { Arc::decrement_strong_count(Self::around(head)) };
    }
}
