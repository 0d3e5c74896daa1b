//! The handle of a color, and what the runtime knows of one beside its events.
//!
//! Leaves out what stands before some colors: `door.rs`.

use crate::{door::Door, handler::Handlers, observed::poster, share::Share};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering},
    },
};
use vermeil_queue::{ColorId, ColorQueue, Event, Pushed};
use vermeil_sched::{Calls, CoreIndex, HandlerIndex, Kin, Leader, Placement};

/// A color's queue, as the cores share it.
pub(crate) type Queue = ColorQueue<About>;

/// What every color has, also one that a task has for itself.
pub(crate) type Head = vermeil_queue::Head<About>;

/// The right to run a color of this runtime.
pub(crate) type Token = vermeil_queue::Token<About>;

/// Where a color may live, or whom it follows.
#[derive(Clone)]
pub(crate) enum Seat {
    Lives(Placement),
    Follows(Leader),
    /// As its door says, of which there are few.
    Behind(Arc<Door>),
}

impl Seat {
    /// Where it lives or whom it follows, whatever stands before it.
    #[inline]
    pub(crate) fn inner(&self) -> &Self {
        if let Self::Behind(door) = self { &door.seat } else { self }
    }
}

impl Default for Seat {
    fn default() -> Self {
        Self::Lives(Placement::Any)
    }
}

/// What the scheduler knows of a color. Written by the holder of its token, unless said otherwise; the others read hints. Small:
/// there are as many as tasks. Cores and handlers have numbers of 16 bits, as on labels.
pub(crate) struct About {
    seat: Seat,
    /// When it was moved last, on the measuring clock; zero if never.
    pub(crate) moved_ns: AtomicU64,
    /// Its place in its core's ready queue, written under that queue's lock.
    pub(crate) slot: AtomicU32,
    /// Who has called it how often, as [`Calls`] has it. Written by whoever makes its token.
    calls: AtomicU32,
    /// Handler of the event posted last, written by whoever posts: what a move is expected to cost.
    handler: AtomicU16,
    /// Core it ran on last, `NOWHERE` before it ever ran.
    ran_on: AtomicU16,
    /// Its events gather: its token waits apart. Written by whoever holds the token; a hint for the others.
    pub(crate) gathering: AtomicBool,
    /// Whether something on the color uses a core's driver: [`FREE`], [`COMES`] or [`BOUND`].
    driver: AtomicU8,
}

/// Nothing on the color uses a driver.
const FREE: u8 = 0;
/// It goes to the core whose driver something on it uses, and stays there.
const COMES: u8 = 1;
/// Something on it uses its core's driver: it stays there.
const BOUND: u8 = 2;

/// Where a color may go.
#[derive(Clone, Default)]
pub(crate) enum Reach {
    /// Nowhere.
    #[default]
    Stays,
    Lives(Placement),
}

impl Reach {
    pub(crate) fn includes(&self, core: CoreIndex) -> bool {
        matches!(self, Self::Lives(placement) if placement.allows(core))
    }
}

const NOWHERE: u16 = u16::MAX;

impl About {
    pub(crate) fn new(seat: Seat) -> Self {
        Self::of_task(seat, HandlerIndex(0))
    }

    /// Of a color on which one task lives, whose polls count as `handler`.
    // Inlined, or what is made here is copied to where it will stand.
    #[inline(always)]
    pub(crate) fn of_task(seat: Seat, handler: HandlerIndex) -> Self {
        Self {
            seat,
            moved_ns: AtomicU64::new(0),
            slot: AtomicU32::new(u32::MAX),
            calls: AtomicU32::new(Calls::default().0),
            handler: AtomicU16::new(handler.0 as u16),
            ran_on: AtomicU16::new(NOWHERE),
            gathering: AtomicBool::new(false),
            driver: AtomicU8::new(FREE),
        }
    }

    pub(crate) fn reseat(&mut self, new: impl FnOnce(&Seat) -> Seat) {
        self.seat = new(&self.seat);
    }

    /// What stands before the color.
    #[inline]
    pub(crate) fn door(&self) -> Option<&Arc<Door>> {
        if let Seat::Behind(door) = &self.seat { Some(door) } else { None }
    }

    /// Whether a thief may take the color at all.
    pub(crate) fn may_move(&self) -> bool {
        let moves = match self.seat.inner() {
            Seat::Lives(placement) => !placement.is_fixed(),
            Seat::Follows(_) | Seat::Behind(_) => false,
        };
        moves && self.driver.load(Ordering::Relaxed) == FREE
    }

    /// Where the color may go for what it uses.
    #[inline]
    pub(crate) fn reach(&self) -> Reach {
        match self.seat.inner() {
            Seat::Lives(placement) if !placement.is_fixed() && !self.is_bound() => {
                Reach::Lives(placement.clone())
            }
            _ => Reach::Stays,
        }
    }

    /// Whether its events need the driver of the core that it is on.
    pub(crate) fn is_bound(&self) -> bool {
        self.driver.load(Ordering::Relaxed) == BOUND
    }

    /// Where the color may live; nowhere of its own if it follows somebody.
    pub(crate) fn lives(&self) -> Option<&Placement> {
        if let Seat::Lives(placement) = &self.seat { Some(placement) } else { None }
    }

    /// Whether the color may run on `core`.
    pub(crate) fn allows(&self, core: CoreIndex) -> bool {
        match self.seat.inner() {
            Seat::Lives(placement) => placement.allows(core),
            Seat::Follows(_) | Seat::Behind(_) => true,
        }
    }

    /// Where the color goes if it follows somebody, now that `poster` has made its token.
    #[inline]
    fn follows(&self, handlers: &Handlers, poster: Option<CoreIndex>) -> Option<CoreIndex> {
        let Seat::Follows(leader) = self.seat.inner() else { return None };
        let there = leader.core(poster, |leader| handlers.ran_on(leader))?;
        (!self.is_bound()).then_some(there)
    }

    /// The color's next events need the driver of the core that it is on.
    pub(crate) fn bind_to_driver(&self) {
        self.driver.store(BOUND, Ordering::Relaxed);
    }

    /// The color goes to the core whose driver it has asked for, and stays there.
    pub(crate) fn comes_to_driver(&self) {
        if !self.is_bound() {
            self.driver.store(COMES, Ordering::Relaxed);
        }
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
        HandlerIndex(self.handler.load(Ordering::Relaxed).into())
    }

    /// An event of `handler` is posted.
    #[inline]
    fn is_posted_by(&self, handler: HandlerIndex) {
        if self.handler() != handler {
            self.handler.store(handler.0 as u16, Ordering::Relaxed);
        }
    }

    /// Whether it ever ran.
    pub(crate) fn has_run(&self) -> bool {
        self.ran_on.load(Ordering::Relaxed) != NOWHERE
    }

    /// Notes that the color runs on `core`; gives the core it ran on before, if that was another.
    pub(crate) fn runs_on(&self, core: CoreIndex) -> Option<CoreIndex> {
        let before = self.ran_on.load(Ordering::Relaxed);
        if before == core.0 as u16 {
            return None;
        }
        self.ran_on.store(core.0 as u16, Ordering::Relaxed);
        if self.driver.load(Ordering::Relaxed) == COMES {
            self.bind_to_driver();
        }
        (before != NOWHERE).then_some(CoreIndex(before.into()))
    }
}

/// Whom a color is like, as far as a thief weighs it: one that may live anywhere, has never been moved and has one event is like all
/// such that expect the same handler.
#[inline]
pub(crate) fn kin(color: &Head) -> Option<Kin> {
    let about = &color.about;
    let lives_anywhere = matches!(about.seat, Seat::Lives(Placement::Any));
    let is_alike = lives_anywhere && about.moved_ns.load(Ordering::Relaxed) == 0 && color.len() == 1;
    is_alike.then(|| Kin(about.handler.load(Ordering::Relaxed)))
}

/// A serial queue of events: what is posted on one color never overlaps and runs in order, unless it is a
/// [free](crate::Handle::free_color) one. Cheap to clone; a color lives as long as somebody holds it or something is queued on it.
#[derive(Clone)]
pub struct Color {
    pub(crate) queue: Arc<Queue>,
    pub(crate) shared: Share,
}

impl Color {
    pub(crate) fn new(core: CoreIndex, about: About, shared: Share) -> Self {
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

    /// Events queued; a hint. What the color's events post to it themselves counts when they have run.
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
        let label = self.shared.label(handler, worth_ns);
        let (event, poster) = (event.labelled(label), poster(label));
        self.queue.about.is_posted_by(handler);
        match self.queue.post(event) {
            Pushed::First(token) => {
                if let Some(core) = self.queue.about.follows(&self.shared.handlers, poster) {
                    if core != self.core() && self.queue.about.has_run() {
                        self.shared.count_move(handler);
                    }
                    token.move_to(core.0);
                } else if let Some(here) = poster {
                    self.shared.bring_to_poster(&token, here);
                }
                match self.shared.handlers.gather(handler) {
                    None => self.shared.woken(token, poster),
                    Some(gather) => self.shared.gather(token, gather),
                }
            }
            Pushed::Behind => self.shared.posted(&self.queue, handler, worth_ns),
            Pushed::Own => self.shared.called_again(&self.queue),
        }
    }
}

impl fmt::Debug for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Color").field("id", &self.id()).field("core", &self.core()).finish_non_exhaustive()
    }
}
