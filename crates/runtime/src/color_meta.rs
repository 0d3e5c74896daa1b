//! The scheduler's state of a color, beside its events.
//!
//! Leaves out the queue of the events (`queue/src/color.rs`) and the handle (`color.rs`). The words
//! are argued in `color_meta.md`.

use crate::affinity::{Affinity, Bounded};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering},
};
use vermeil_queue::ColorQueue;
use vermeil_sched::{CoreIndex, HandlerIndex, Placement, QueuedClass, RecentLength, StealClass};

/// A color's queue, shared by the cores.
pub(crate) type RuntimeQueue = ColorQueue<ColorMeta>;

/// The part that every color has, also a color that belongs to a single task.
pub(crate) type RuntimeHead = vermeil_queue::ColorHead<ColorMeta>;

/// The right to run a color of this runtime.
pub(crate) type RuntimeToken = vermeil_queue::Token<ColorMeta>;

/// The scheduler's state of a color. Written by the holder of the token, unless a field says
/// otherwise; other threads read hints. The struct is small because there are as many as tasks.
/// Cores and handlers have numbers of 16 bits, as on labels.
pub(crate) struct ColorMeta {
    affinity: Affinity,
    /// Time of the last move, on the measuring clock; zero if never moved.
    pub(crate) moved_ns: AtomicU64,
    /// Slot in the core's ready queue, written under that queue's lock.
    pub(crate) slot: AtomicU32,
    /// Handler of the last event, written by posters: gives the expected cost of a move.
    handler: AtomicU16,
    /// The core of the last run, `NOWHERE` before the first run.
    ran_on: AtomicU16,
    /// The color gathers events, so its token waits apart. Written by the holder of the token; a
    /// hint for other threads.
    pub(crate) batch_waits: AtomicBool,
    /// The longest recent timed event, a [`RecentLength`]. Written by the holder of the token.
    length: AtomicU8,
    /// The first event has a permit of its handler's concurrency limit. Read and written by the
    /// holder of the token.
    pub(crate) has_permit: AtomicBool,
    /// A [`Staying`] in the lowest bits, [`IN_BACKGROUND`] and [`ALWAYS_IN_BACKGROUND`]. Written by
    /// the holder of the token.
    marks: AtomicU8,
}

/// The bits of a [`Staying`].
const STAYING_BITS: u8 = 0b11;

/// The task of the color waits in the background.
const IN_BACKGROUND: u8 = 0b100;

/// The color was made for the background.
const ALWAYS_IN_BACKGROUND: u8 = 0b1000;

/// Whether the color of a task stays on the core for now, although the affinity lets the color
/// move.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Staying {
    /// The color moves as its affinity says.
    Unbound,
    /// The task uses its core's state.
    Stays,
    /// The task waits, and its color may move meanwhile.
    MayMove,
}

const NOWHERE: u16 = u16::MAX;

impl ColorMeta {
    pub(crate) fn new(affinity: Affinity) -> Self {
        Self::of_task(affinity, HandlerIndex(0))
    }

    /// For a color of a single task, whose polls count as `handler`.
    // Inlined, because otherwise the value is built on the stack and copied to its place.
    #[inline(always)]
    pub(crate) fn of_task(affinity: Affinity, handler: HandlerIndex) -> Self {
        Self {
            affinity,
            moved_ns: AtomicU64::new(0),
            slot: AtomicU32::new(u32::MAX),
            handler: AtomicU16::new(handler.0 as u16),
            ran_on: AtomicU16::new(NOWHERE),
            batch_waits: AtomicBool::new(false),
            length: AtomicU8::new(0),
            has_permit: AtomicBool::new(false),
            marks: AtomicU8::new(Staying::Unbound as u8),
        }
    }

    /// For the color of a task that stays on its core, except in some waits.
    pub(crate) fn staying(mut self) -> Self {
        *self.marks.get_mut() |= Staying::Stays as u8;
        self
    }

    /// Whether the color's task stays on its core, except in some waits.
    pub(crate) fn stays(&self) -> bool {
        self.staying_bits() != Staying::Unbound as u8
    }

    /// The task of the color begins or ends a wait in which the color may move. No effect on other
    /// colors.
    pub(crate) fn set_staying(&self, staying: Staying) {
        if self.stays() {
            self.set_marks(STAYING_BITS, staying as u8);
        }
    }

    #[inline]
    fn staying_bits(&self) -> u8 {
        self.marks.load(Ordering::Relaxed) & STAYING_BITS
    }

    /// Replaces some bits of the marks. Only the holder of the token writes, so no change is lost.
    fn set_marks(&self, bits: u8, marks: u8) {
        let others = self.marks.load(Ordering::Relaxed) & !bits;
        self.marks.store(others | marks, Ordering::Relaxed);
    }

    /// The color is in the background from now on.
    pub(crate) fn keep_in_background(&mut self) {
        *self.marks.get_mut() |= ALWAYS_IN_BACKGROUND;
    }

    /// Whether the color was made for the background.
    pub(crate) fn is_kept_in_background(&self) -> bool {
        self.marks.load(Ordering::Relaxed) & ALWAYS_IN_BACKGROUND != 0
    }

    /// For the color of a task that begins in the background.
    pub(crate) fn begins_in_background(mut self) -> Self {
        *self.marks.get_mut() |= IN_BACKGROUND;
        self
    }

    /// The task of the color enters or leaves the background.
    pub(crate) fn set_background(&self, background: bool) {
        self.set_marks(IN_BACKGROUND, if background { IN_BACKGROUND } else { 0 });
    }

    /// Whether the color waits behind the others of its core, because of its length or because it
    /// is in the background.
    #[inline]
    pub(crate) fn waits_behind(&self) -> bool {
        self.length().is_long() || self.is_background()
    }

    /// Whether the color is in the background.
    #[inline]
    pub(crate) fn is_background(&self) -> bool {
        self.marks.load(Ordering::Relaxed) & (IN_BACKGROUND | ALWAYS_IN_BACKGROUND) != 0
    }

    pub(crate) fn set_affinity(&mut self, new: impl FnOnce(&Affinity) -> Affinity) {
        self.affinity = new(&self.affinity);
    }

    /// The bound of the color, if the color has a bound.
    #[inline]
    pub(crate) fn bounded(&self) -> Option<&Arc<Bounded>> {
        if let Affinity::Bounded(bounded) = &self.affinity { Some(bounded) } else { None }
    }

    /// Whether a thief may take the color at all.
    pub(crate) fn may_move(&self) -> bool {
        if self.staying_bits() == Staying::Stays as u8 {
            return false;
        }
        match self.affinity.inner() {
            Affinity::Placed(placement) => !placement.is_fixed(),
            Affinity::FollowsHandler(_) | Affinity::Bounded(_) => false,
        }
    }

    /// Marks the class of a color that some cores must not take, so that thieves also look at the
    /// colors behind it.
    #[inline]
    pub(crate) fn class_for_thieves(&self, class: Option<QueuedClass>) -> Option<QueuedClass> {
        let lives_anywhere = matches!(self.affinity.inner(), Affinity::Placed(Placement::Any));
        if lives_anywhere && !self.stays() { class } else { class.map(QueuedClass::restricted) }
    }

    /// The color's placement; `None` if the color follows a handler.
    pub(crate) fn placement(&self) -> Option<&Placement> {
        if let Affinity::Placed(placement) = &self.affinity { Some(placement) } else { None }
    }

    /// Whether the color may run on `core`.
    pub(crate) fn allows(&self, core: CoreIndex) -> bool {
        match self.affinity.inner() {
            Affinity::Placed(placement) => placement.allows(core),
            Affinity::FollowsHandler(_) | Affinity::Bounded(_) => true,
        }
    }

    /// The core that a following color moves to, now that `poster` has made the token.
    #[inline]
    pub(crate) fn leader(
        &self,
        ran_on: impl FnOnce(HandlerIndex) -> Option<CoreIndex>,
        poster: Option<CoreIndex>,
    ) -> Option<CoreIndex> {
        let Affinity::FollowsHandler(leader) = self.affinity.inner() else { return None };
        leader.core(poster, ran_on)
    }

    pub(crate) fn handler(&self) -> HandlerIndex {
        HandlerIndex(self.handler.load(Ordering::Relaxed).into())
    }

    /// An event of `handler` is posted.
    #[inline]
    pub(crate) fn is_posted_by(&self, handler: HandlerIndex) {
        if self.handler() != handler {
            self.handler.store(handler.0 as u16, Ordering::Relaxed);
        }
    }

    /// An event has run for `run_ns`.
    #[inline]
    pub(crate) fn has_run_for(&self, run_ns: u64) {
        let (before, after) = (self.length(), self.length().after(run_ns));
        if before != after {
            self.length.store(after.0, Ordering::Relaxed);
        }
    }

    /// The longest recent timed event.
    #[inline]
    pub(crate) fn length(&self) -> RecentLength {
        RecentLength(self.length.load(Ordering::Relaxed))
    }

    /// Whether the color has ever run.
    pub(crate) fn has_run(&self) -> bool {
        self.ran_on.load(Ordering::Relaxed) != NOWHERE
    }

    /// Records that the color runs on `core`. Returns the previous core if that was another core.
    pub(crate) fn runs_on(&self, core: CoreIndex) -> Option<CoreIndex> {
        let before = self.ran_on.load(Ordering::Relaxed);
        if before == core.0 as u16 {
            return None;
        }
        self.ran_on.store(core.0 as u16, Ordering::Relaxed);
        (before != NOWHERE).then_some(CoreIndex(before.into()))
    }
}

/// The group of colors that a thief weighs alike: a color that may live anywhere, was never moved
/// and has one event is like every such color with the same expected handler.
#[inline]
pub(crate) fn steal_class(color: &RuntimeHead) -> Option<StealClass> {
    let meta = &color.meta;
    let lives_anywhere = matches!(meta.affinity, Affinity::Placed(Placement::Any));
    let is_alike = lives_anywhere && meta.moved_ns.load(Ordering::Relaxed) == 0 && color.len() == 1;
    is_alike.then(|| StealClass(meta.handler.load(Ordering::Relaxed)))
}
