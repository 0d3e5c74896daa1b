//! A color that one event has for itself, in the event's own memory: what most tasks live on.
//!
//! Nothing else is ever posted to it, so it needs no queue: the mark `POSTED` beside the count of the color's events stands for
//! the event that waits. It is made posted; later posts set the mark and count in one operation, the run clears it, and settling is
//! the queue's. The token has the poster's share in the memory, if the poster gives it. The argument stands in `own.md`; checked
//! in `model/own.rs` (no lost post, one token, exclusion) and `tests.rs`.
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

/// What a token does with the event that stands around its color.
pub(crate) struct Own<D: 'static> {
    pub(crate) run: unsafe fn(NonNull<Head<D>>),
    pub(crate) drop: unsafe fn(NonNull<Head<D>>),
    pub(crate) label: unsafe fn(NonNull<Head<D>>) -> Label,
    pub(crate) share: unsafe fn(NonNull<Head<D>>),
    pub(crate) let_go: unsafe fn(NonNull<Head<D>>),
}

/// What became of a post to an event's own color.
pub enum Called<D: 'static, R = ()> {
    /// The color was empty: the caller must put its token in a ready queue.
    First(Token<D>),
    /// The event runs, and will run again. With the caller's share in it, if it gave one.
    Again(R),
    /// It waits already: its coming run sees what the caller did before.
    Waits,
}

/// What a post found.
enum Found {
    Empty,
    Running,
    Waiting,
}

impl<D> Head<D> {
    /// Counts the event and marks it as waiting, unless it is.
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
            // Release: the run that clears the mark sees what came before any post, also one that found it set. Acquire: the
            // new token's holder continues after the last one.
            match self.counted.compare_exchange_weak(before, after, counting(), Ordering::Relaxed) {
                Ok(_) if marked => return Found::Waiting,
                Ok(_) if Counted(before).number() == 0 || planted(Bug::SecondToken) => return Found::Empty,
                Ok(_) => return Found::Running,
                Err(changed) => before = changed,
            }
        }
    }

    /// The event begins to run: what posts it from now on counts it again. Gives what is to be accounted when it has run.
    #[inline]
    pub(crate) fn begin(&self) -> Counted {
        // The mark is there: nobody else takes it away. Acquire pairs with the posts, Release with nothing but the model's order
        // of both.
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

    /// A new event that is posted to a color of its own, and its token, which goes to core `core`: the caller must put it in a ready
    /// queue.
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
        // Nobody else has it yet: whoever gets the token or the event gets it in a way that orders both stores before.
        event.write_label(label);
        event.home.counted.store(Counted::event(label).posted().0, Ordering::Relaxed);
        let token = event.clone().into_token();
        (Spawned(event), token)
    }

    /// Posts the event to its own color; `label` is asked if it does not wait there already.
    pub fn call(self: &Pin<Arc<Self>>, label: impl FnOnce() -> Label) -> Called<D> {
        match self.mark(label) {
            Found::Empty => Called::First(self.clone().into_token()),
            Found::Running => Called::Again(()),
            Found::Waiting => Called::Waits,
        }
    }

    /// As [`call`](Self::call), with a share in the event that becomes the token's.
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

    /// The color's token, for whoever has just made it.
    fn into_token(self: Pin<Arc<Self>>) -> Token<D> {
        // SAFETY: it goes on as a raw pointer, of which nothing moves what it points to.
        let raw = Arc::into_raw(unsafe { Pin::into_inner_unchecked(self) }).cast_mut();
        // SAFETY: a field of what lives; the pointer is the Arc's, so all of it may be reached through this one, and is never
        // null. Its count goes with it.
        unsafe { Token::new(ColorRef::from_raw(NonNull::new_unchecked(&raw mut (*raw).home))) }
    }

    /// The event around a color.
    fn around(head: NonNull<Head<D>>) -> *const Self {
        head.as_ptr().cast_const().wrapping_byte_sub(offset_of!(Self, home)).cast()
    }

    /// # Safety
    /// `head` is what `into_token` made, and its count is still there for as long as this is used.
    unsafe fn shared(head: NonNull<Head<D>>) -> ManuallyDrop<Pin<Arc<Self>>> {
        // SAFETY: it is an Arc's pointer, whose count is not taken. It was pinned before.
        ManuallyDrop::new(unsafe { Pin::new_unchecked(Arc::from_raw(Self::around(head))) })
    }

    unsafe fn run_own(head: NonNull<Head<D>>) {
        // SAFETY: the token that runs has a count.
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
        // SAFETY: whoever shares has a count.
        unsafe { Arc::increment_strong_count(Self::around(head)) };
    }

    unsafe fn let_go_own(head: NonNull<Head<D>>) {
        // SAFETY: whoever lets go has a count, and gives it up.
        unsafe { Arc::decrement_strong_count(Self::around(head)) };
    }
}
