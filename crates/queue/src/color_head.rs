//! The common part of every color: the kind, the name, the count, the core and the pending
//! migration.
//!
//! A color is a queue (`color_queue.rs`) or is stored in the color's only event (`task_color.rs`).
//! Leaves out the token (`token.rs`). The protocols are in `color.md` and `migration.md`.

use crate::{
    canary::{Bug, planted},
    color_id::ColorId,
    event::Label,
    queued_events::QueuedEvents,
    sync::{AtomicU16, AtomicU32, AtomicU64, Ordering},
};
use std::ptr::NonNull;

/// The common part of every color. `D` is the scheduler's metadata.
pub struct ColorHead<D: 'static = ()> {
    pub(crate) kind: &'static HeadKind<D>,
    pub(crate) id: ColorId,
    /// Events counted and not yet accounted as run, and their worth, in one word, so that one
    /// operation changes both. The token exists while the number of events is above zero.
    pub(crate) counted: AtomicU64,
    /// Index of the core whose ready queue the token goes to. Only the token's holder writes the
    /// index.
    pub(crate) core: AtomicU32,
    /// The pending migration of the color.
    pub(crate) migration: MigrationRequest,
    /// The scheduler's metadata.
    pub meta: D,
}

/// The object around a head.
pub(crate) enum HeadKind<D: 'static> {
    /// A [`ColorQueue`], as its first bytes.
    Queue,
    /// An event.
    TaskColor(TaskColorVtable<D>),
}

/// The operations of a token on the event around the color.
pub(crate) struct TaskColorVtable<D: 'static> {
    pub(crate) run: unsafe fn(NonNull<ColorHead<D>>),
    pub(crate) drop: unsafe fn(NonNull<ColorHead<D>>),
    pub(crate) label: unsafe fn(NonNull<ColorHead<D>>) -> Label,
    pub(crate) share: unsafe fn(NonNull<ColorHead<D>>),
    pub(crate) unshare: unsafe fn(NonNull<ColorHead<D>>),
}

impl<D> ColorHead<D> {
    // Inlined, because otherwise the compiler copies the head to its destination.
    #[inline(always)]
    pub(crate) fn new(kind: &'static HeadKind<D>, id: ColorId, core: u32, meta: D) -> Self {
        Self {
            kind,
            id,
            counted: AtomicU64::new(0),
            core: AtomicU32::new(core),
            migration: MigrationRequest::default(),
            meta,
        }
    }

    /// The color's name.
    pub fn id(&self) -> ColorId {
        self.id
    }

    /// Index of the core whose ready queue the token goes to.
    pub fn core(&self) -> u32 {
        self.core.load(Ordering::Relaxed)
    }

    /// Whether a placement has requested the color on another core, or requested the color where it
    /// already was.
    #[inline]
    pub fn is_migrating(&self) -> bool {
        self.migration.is_set()
    }

    /// Sum of the [`Label::worth_ns`] of the queued events, each rounded up to 64 ns. Zero when no
    /// event is queued; a hint for every thread but the token's holder.
    pub fn worth_ns(&self) -> u64 {
        QueuedEvents(self.counted.load(Ordering::Relaxed)).worth_ns()
    }

    /// Events pushed and not yet run; a hint for every thread but the token's holder. Events that a
    /// color posts to itself count once the run has settled.
    pub fn len(&self) -> usize {
        QueuedEvents(self.counted.load(Ordering::Relaxed)).number()
    }

    /// Whether nothing is queued; a hint, as [`ColorHead::len`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A pending migration: the core that a placement requested, if any. The placement writes the
/// request, and the thread that queues the token takes the request.
pub(crate) struct MigrationRequest(AtomicU16);

const NONE: u16 = u16::MAX;

impl Default for MigrationRequest {
    fn default() -> Self {
        Self(AtomicU16::new(NONE))
    }
}

impl MigrationRequest {
    pub(crate) fn set(&self, core: u16) {
        debug_assert_ne!(core, NONE, "that number stands for none");
        // Relaxed suffices, because the thread that queues the token reads the request under a lock
        // after this, or at a later time. An exchange, as in `take`, because the model checker lets
        // a plain store come between the two halves of an exchange.
        self.0.swap(core, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != NONE
    }

    /// Takes the request; a second call returns none.
    #[inline]
    pub(crate) fn take(&self) -> Option<u16> {
        let seen = self.0.load(Ordering::Relaxed);
        if seen == NONE {
            return None;
        }
        // A single step, because another placement may replace the request meanwhile, and the last
        // request counts.
        let taken = if planted(Bug::TakeMigrationInTwoSteps) {
            self.0.store(NONE, Ordering::Relaxed);
            seen
        } else {
            self.0.swap(NONE, Ordering::Relaxed)
        };
        (taken != NONE).then_some(taken)
    }
}
