//! The handle of a color, and what the runtime knows of one beside its events.

use crate::{handler::Handlers, shared::Shared};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};
use vermeil_queue::{ColorId, ColorQueue, Event};
use vermeil_sched::{Calls, CoreIndex, HandlerIndex, Leader, Placement};

/// A color's queue, as the cores share it.
pub(crate) type Queue = ColorQueue<About>;

/// The right to run a color of this runtime.
pub(crate) type Token = vermeil_queue::Token<About>;

/// What the scheduler knows of a color. Written by the holder of its token, unless said otherwise; the others read hints.
pub(crate) struct About {
    pub(crate) placement: Placement,
    leader: Option<Leader>,
    /// Its place in its core's ready queue, written under that queue's lock.
    pub(crate) slot: AtomicU32,
    /// Handler of the event posted last, written by whoever posts: what a move is expected to cost.
    handler: AtomicU32,
    /// Its events gather: its token waits apart. Written by whoever holds the token; a hint for the others.
    pub(crate) gathering: AtomicBool,
    /// Something on the color uses its core's driver: it stays there.
    bound_to_driver: AtomicBool,
    /// Core it ran on last, `NOWHERE` before it ever ran.
    ran_on: AtomicU32,
    /// The core that a plan wants it on, `NOWHERE` if it is there or no plan says: written by the controller, taken by
    /// whoever queues the token.
    wanted: AtomicU32,
    /// Who has called it how often, as [`Calls`] has it. Written by whoever makes its token.
    calls: AtomicU32,
    /// When it was moved last, on the measuring clock; zero if never.
    pub(crate) moved_ns: AtomicU64,
}

const NOWHERE: u32 = u32::MAX;

impl About {
    pub(crate) fn new(placement: Placement, leader: Option<Leader>) -> Self {
        Self {
            placement,
            leader,
            slot: AtomicU32::new(NOWHERE),
            handler: AtomicU32::new(0),
            gathering: AtomicBool::new(false),
            bound_to_driver: AtomicBool::new(false),
            ran_on: AtomicU32::new(NOWHERE),
            wanted: AtomicU32::new(NOWHERE),
            calls: AtomicU32::new(Calls::default().0),
            moved_ns: AtomicU64::new(0),
        }
    }

    /// Whether a thief may take the color at all.
    pub(crate) fn may_move(&self) -> bool {
        !self.bound_to_driver.load(Ordering::Relaxed) && !self.placement.is_fixed() && self.leader.is_none()
    }

    /// Where the color goes if it follows somebody, now that `poster` has made its token.
    #[inline]
    fn follows(&self, handlers: &Handlers, poster: Option<CoreIndex>) -> Option<CoreIndex> {
        let there = self.leader?.core(poster, |leader| handlers.ran_on(leader))?;
        (!self.bound_to_driver.load(Ordering::Relaxed)).then_some(there)
    }

    /// The color's next events need the driver of the core that it is on.
    pub(crate) fn bind_to_driver(&self) {
        self.bound_to_driver.store(true, Ordering::Relaxed);
    }

    /// A plan wants the color on `core`.
    pub(crate) fn want(&self, core: CoreIndex) {
        self.wanted.store(core.0, Ordering::Relaxed);
    }

    /// Whether a plan wants the color elsewhere.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) != NOWHERE
    }

    /// Where the color is to go before it is queued, told once.
    #[inline]
    pub(crate) fn take_wanted(&self) -> Option<CoreIndex> {
        if !self.is_wanted() {
            return None;
        }
        let wanted = self.wanted.swap(NOWHERE, Ordering::Relaxed);
        (wanted != NOWHERE).then_some(CoreIndex(wanted))
    }

    /// Core `caller` has made its token while it lived on `home`; how often in a row.
    #[inline]
    pub(crate) fn called(&self, caller: CoreIndex, home: CoreIndex) -> u32 {
        let before = Calls(self.calls.load(Ordering::Relaxed));
        let calls = before.and(caller, home);
        if calls != before {
            self.calls.store(calls.0, Ordering::Relaxed);
        }
        calls.number()
    }

    pub(crate) fn handler(&self) -> HandlerIndex {
        HandlerIndex(self.handler.load(Ordering::Relaxed))
    }

    /// Notes that the color runs on `core`; gives the core it ran on before, if that was another.
    pub(crate) fn runs_on(&self, core: CoreIndex) -> Option<CoreIndex> {
        let before = self.ran_on.load(Ordering::Relaxed);
        if before == core.0 {
            return None;
        }
        self.ran_on.store(core.0, Ordering::Relaxed);
        (before != NOWHERE).then_some(CoreIndex(before))
    }
}

/// A serial queue of events: what is posted on one color never overlaps and runs in order. Cheap to clone; a color
/// lives as long as somebody holds it or something is queued on it.
#[derive(Clone)]
pub struct Color {
    pub(crate) queue: Arc<Queue>,
    pub(crate) shared: Arc<Shared>,
}

impl Color {
    pub(crate) fn new(core: CoreIndex, about: About, shared: Arc<Shared>) -> Self {
        Self { queue: ColorQueue::new(core.0, about), shared }
    }

    /// The color's name, unique in the process.
    pub fn id(&self) -> ColorId {
        self.queue.id()
    }

    /// The core the color is on; a policy may move it.
    pub fn core(&self) -> CoreIndex {
        CoreIndex(self.queue.core())
    }

    /// Events queued; a hint.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether nothing is queued; a hint.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Queues an event of `handler` and lets the scheduler know.
    pub(crate) fn push(&self, handler: HandlerIndex, event: Event) {
        let worth_ns = self.shared.worth_ns(handler);
        let (label, poster) = self.shared.label(handler, worth_ns);
        let event = event.labelled(label);
        if self.queue.about.handler() != handler {
            self.queue.about.handler.store(handler.0, Ordering::Relaxed);
        }
        match self.queue.push(event) {
            Some(token) => {
                if let Some(core) = self.queue.about.follows(&self.shared.handlers, poster) {
                    token.move_to(core.0);
                } else if let Some(here) = poster {
                    self.shared.bring_to_poster(&token, here);
                }
                match self.shared.handlers.gather(handler) {
                    None => self.shared.schedule(token, 1),
                    Some(gather) => self.shared.gather(token, gather),
                }
            }
            None => self.shared.posted(&self.queue, handler, worth_ns),
        }
    }
}

impl fmt::Debug for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Color").field("id", &self.id()).field("core", &self.core()).finish_non_exhaustive()
    }
}
