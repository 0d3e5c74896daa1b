//! The ready queue of a core: colors in order of arrival, and among them the colors worth stealing,
//! best first.
//!
//! Two orders behind one interface. [`ReadyOrder::Colors`] is Mely's: a core-queue links the
//! colors, and a stealing-queue links the worthy colors by worth class. Every step is O(1). If
//! handlers have classes ([`crate::Class`]), each class has a core-queue, and [`ClassShares`]
//! selects the next. Without classes, colors with long events ([`crate::LONG_EVENT_NS`]) have a
//! core-queue of their own behind the short ones, which delays no short event by more than one long
//! event and leaves long events half of the time. [`ReadyOrder::Events`] is Libasync-SMP's: one
//! entry per event in a single queue, and a thief scans the queue from the front. Pure data: a
//! queue that threads share needs a lock. A token is any value that represents the right to run a
//! color; a queue holds at most one token of a color. Tested in `ready/tests.rs` against a plain
//! model.

mod batch_wait;
mod colors;
mod events;
#[cfg(test)]
mod tests;

use crate::{Class, ClassIndex, ClassShares};
pub use batch_wait::BatchWait;
use batch_wait::BatchWaits;
use colors::ReadyColors;
use events::ReadyEvents;
use std::ops::ControlFlow;

/// The contents of a core's queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReadyOrder {
    /// One entry per color: the cost of exclusion, moves and steals does not depend on the queued
    /// events.
    #[default]
    Colors,
    /// One entry per event, in the order of posting on this core; a steal scans the queue.
    Events,
}

/// The worth of a color to a thief: a logarithmic class of the queued time. Higher is better. In
/// each class, colors that only some cores may take are apart, below the others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QueuedClass(u8);

impl QueuedClass {
    /// The number of classes of queued time.
    pub const COUNT: usize = 8;

    /// The lowest class.
    pub const LEAST: Self = Self(Self::FREE);

    /// The bit of a color that every core may take.
    const FREE: u8 = 1;

    /// The number of queues, two for each class.
    const QUEUES: usize = 2 * Self::COUNT;

    /// The queues of colors that every core may take, a bit each.
    const FREE_QUEUES: u16 = 0xAAAA;

    /// Queued time of the lowest class, in nanoseconds, because below a microsecond no move has
    /// ever paid.
    const LEAST_NS: u64 = 1 << 10;

    /// The class of a color with `worth_ns` nanoseconds of queued events, perhaps reduced by a
    /// penalty. Each class spans a factor of four. Less than a microsecond has no class.
    pub fn of(worth_ns: u64) -> Option<Self> {
        let times = worth_ns / Self::LEAST_NS;
        let class = |times: u64| (times.ilog2() / 2).min(Self::COUNT as u32 - 1) as u8;
        (times > 0).then(|| Self((class(times) << 1) | Self::FREE))
    }

    /// The class for a color that some cores must not take. A thief examines a number of these
    /// colors and the same number of others, so neither kind hides the other.
    #[must_use]
    pub fn restricted(self) -> Self {
        Self(self.0 & !Self::FREE)
    }

    /// The queue of the class.
    fn queue(self) -> usize {
        usize::from(self.0)
    }
}

/// The slot of a color in a [`Ready`] queue; stale as soon as the color leaves the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadySlot(pub u32);

/// The steal class of a color. Colors of equal steal class and equal class of queued time are
/// equivalent for a thief, so one check serves all. The thread that queues a color sets the steal
/// class ([`Ready::set_steal_class`]); later posts to a color change only that color.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StealClass(pub u16);

/// The common properties of colors that a thief steals together: [`Ready::steal_class`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StealKey {
    class: QueuedClass,
    steal_class: StealClass,
}

impl StealKey {
    /// The steal class.
    pub fn steal_class(self) -> StealClass {
        self.steal_class
    }
}

/// The result of a steal.
#[derive(Debug, PartialEq, Eq)]
pub struct Stolen<T> {
    /// The token.
    pub token: T,
    /// Entries of the victim's queue that move with the token; zero in order
    /// [`ReadyOrder::Colors`], where events never move.
    pub entries: usize,
    /// The properties of equally good colors, if the color has a steal class.
    pub key: Option<StealKey>,
}

/// The colors that wait for a core.
#[derive(Debug)]
pub struct Ready<T> {
    queue: ReadyKind<T>,
    batch_waits: BatchWaits<T>,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a core has one queue, and a box would cost each post a load")]
enum ReadyKind<T> {
    Colors(ReadyColors<T>),
    Events(ReadyEvents<T>),
}

impl<T> Ready<T> {
    /// An empty queue of this order.
    pub fn new(order: ReadyOrder) -> Self {
        Self::divided(order, &[])
    }

    /// An empty queue of this order whose core divides its time between the default class and
    /// `classes`. [`ReadyOrder::Events`] ignores classes and runs events in the order of posting.
    pub fn divided(order: ReadyOrder, classes: &[Class]) -> Self {
        let queue = match order {
            ReadyOrder::Colors => {
                ReadyKind::Colors(ReadyColors::new((!classes.is_empty()).then(|| ClassShares::new(classes))))
            }
            ReadyOrder::Events => ReadyKind::Events(ReadyEvents::default()),
        };
        Self { queue, batch_waits: BatchWaits::default() }
    }

    /// The slot of the next color, until that color is queued. The caller can store the slot with
    /// the color before giving the token away, because afterwards the caller would have to read the
    /// color again.
    pub fn next_slot(&mut self) -> ReadySlot {
        match &mut self.queue {
            ReadyKind::Colors(colors) => colors.next_slot(),
            ReadyKind::Events(_) => ReadySlot(u32::MAX),
        }
    }

    /// Puts the token of color `color` at the tail. `class`: the worth class for thieves, `None` if
    /// the color must stay. Returns the color's slot.
    pub fn push(&mut self, color: u64, token: T, class: Option<QueuedClass>) -> ReadySlot {
        self.push_in(color, token, class, ClassIndex::default(), 0)
    }

    /// As [`push`](Self::push), at the tail of handler class `of`, or without classes of the short
    /// or the [long](ClassIndex::LONG) colors; the color waits since `now_ns`.
    pub fn push_in(
        &mut self,
        color: u64,
        token: T,
        class: Option<QueuedClass>,
        of: ClassIndex,
        now_ns: u64,
    ) -> ReadySlot {
        match &mut self.queue {
            ReadyKind::Colors(colors) => colors.push(color, token, class, of, now_ns),
            ReadyKind::Events(events) => {
                events.arrive(color, token, class.is_some());
                ReadySlot(u32::MAX)
            }
        }
    }

    /// Adds entries for events of `color` posted here; the token may be here, on the way or
    /// running. Only for [`ReadyOrder::Events`]; no effect otherwise.
    pub fn post(&mut self, color: u64, entries: usize) {
        if let ReadyKind::Events(events) = &mut self.queue {
            events.post(color, entries);
        }
    }

    /// Changes the worth class of the color in `slot`. Ignored if the color has left.
    pub fn reclass(&mut self, slot: ReadySlot, color: u64, class: Option<QueuedClass>) {
        if let ReadyKind::Colors(colors) = &mut self.queue {
            colors.reclass(slot, color, class);
        }
    }

    /// Sets the steal class of the color in `slot`, which was just queued.
    pub fn set_steal_class(&mut self, slot: ReadySlot, steal_class: StealClass) {
        if let ReadyKind::Colors(colors) = &mut self.queue {
            colors.set_steal_class(slot, steal_class);
        }
    }

    /// Takes the owner's next color, if time is not divided; otherwise call
    /// [`pop_at`](Self::pop_at).
    pub fn pop(&mut self) -> Option<T> {
        self.pop_at(0)
    }

    /// Takes the owner's next color: the oldest of the class that is due.
    pub fn pop_at(&mut self, now_ns: u64) -> Option<T> {
        self.pop_with(|| now_ns)
    }

    /// As [`pop_at`](Self::pop_at), with a clock that is read only if the choice depends on it.
    pub fn pop_with(&mut self, now_ns: impl FnOnce() -> u64) -> Option<T> {
        match &mut self.queue {
            ReadyKind::Colors(colors) => colors.pop(now_ns),
            ReadyKind::Events(events) => events.pop(),
        }
    }

    /// Whether [`pop_with`](Self::pop_with) would take a [long](ClassIndex::LONG) color. Never if
    /// time is divided.
    pub fn is_long_next(&mut self, now_ns: impl FnOnce() -> u64) -> bool {
        match &mut self.queue {
            ReadyKind::Colors(colors) => colors.is_long_next(now_ns),
            ReadyKind::Events(_) => false,
        }
    }

    /// Charges `ns` of run time for the color that the owner took last.
    pub fn charge(&mut self, ns: u64) {
        if let ReadyKind::Colors(colors) = &mut self.queue {
            colors.charge(ns);
        }
    }

    /// I12: a class that has delayed others beyond its share, if there is one.
    pub fn overdrawn(&self) -> Option<ClassIndex> {
        match &self.queue {
            ReadyKind::Colors(colors) => colors.overdrawn(),
            ReadyKind::Events(_) => None,
        }
    }

    /// Keeps the token of `color` until the token is taken by name or is due: the color gathers
    /// events.
    pub fn wait_for_batch(&mut self, color: u64, token: T, due_ns: u64) {
        self.batch_waits.push(color, token, due_ns);
    }

    /// Takes the token of `color` if the color gathers events here.
    pub fn take_batch_wait(&mut self, color: u64) -> Option<T> {
        self.batch_waits.take(color)
    }

    /// Takes a token whose color has gathered events for the maximum time.
    pub fn take_batched(&mut self, now_ns: u64) -> Option<T> {
        self.batch_waits.take_due(now_ns)
    }

    /// The time at which the next such token is due.
    pub fn next_batched_ns(&self) -> Option<u64> {
        self.batch_waits.next_ns()
    }

    /// Takes the best color that `fits`: the highest class first, the oldest first within a class.
    /// In order [`ReadyOrder::Colors`], examines a bounded number of
    /// [restricted](QueuedClass::restricted) colors, and the same number of others. Restricted
    /// colors that do not fit may go to the tail of their class, so that the next steal examines
    /// others. In order [`ReadyOrder::Events`], examines all entries.
    pub fn steal(&mut self, fits: impl FnMut(&T) -> bool) -> Option<Stolen<T>> {
        match &mut self.queue {
            ReadyKind::Colors(colors) => colors.steal(fits),
            ReadyKind::Events(events) => events.steal(fits),
        }
    }

    /// Takes the next colors that are equivalent to a stolen color and passes each to `take`, until
    /// `take` breaks. The colors are not examined, because each would cost another line from the
    /// victim's cache, under the victim's lock.
    pub fn steal_class(&mut self, like: StealKey, take: impl FnMut(T) -> ControlFlow<()>) {
        if let ReadyKind::Colors(colors) = &mut self.queue {
            colors.steal_class(like, take);
        }
    }

    /// Takes the token in `slot` if the token belongs to `color`, regardless of worth, for a
    /// migration.
    pub fn remove(&mut self, slot: ReadySlot, color: u64) -> Option<Stolen<T>> {
        match &mut self.queue {
            ReadyKind::Colors(colors) => {
                colors.remove(slot, color).map(|token| Stolen { token, entries: 0, key: None })
            }
            ReadyKind::Events(events) => events.remove(color),
        }
    }

    /// The number of tokens.
    pub fn len(&self) -> usize {
        match &self.queue {
            ReadyKind::Colors(colors) => colors.len(),
            ReadyKind::Events(events) => events.len(),
        }
    }

    /// Whether there is no token.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the owner may find work: an entry whose token is on the way does not count.
    pub fn has_work(&self) -> bool {
        match &self.queue {
            ReadyKind::Colors(colors) => colors.len() > 0,
            ReadyKind::Events(events) => events.has_work(),
        }
    }

    /// The number of tokens, and at least 1 if [`has_work`](Self::has_work): zero exactly if the
    /// owner would find nothing.
    pub fn waiting(&self) -> usize {
        self.len().max(usize::from(self.has_work()))
    }

    /// Takes the entries whose tokens are elsewhere, after all tokens have been taken and the core
    /// ends.
    pub fn leave(&mut self) -> Vec<u64> {
        match &mut self.queue {
            ReadyKind::Colors(_) => Vec::new(),
            ReadyKind::Events(events) => events.leave(),
        }
    }

    /// The number of tokens that a thief may take.
    pub fn stealable(&self) -> usize {
        match &self.queue {
            ReadyKind::Colors(colors) => colors.stealable(),
            ReadyKind::Events(events) => events.stealable(),
        }
    }

    /// Whether a thief may take a token that every core may take.
    pub fn has_free(&self) -> bool {
        match &self.queue {
            ReadyKind::Colors(colors) => colors.has_free(),
            ReadyKind::Events(events) => events.stealable() > 0,
        }
    }

    /// The best class in the queue.
    pub fn best(&self) -> Option<QueuedClass> {
        match &self.queue {
            ReadyKind::Colors(colors) => colors.best(),
            ReadyKind::Events(events) => (events.stealable() > 0).then_some(QueuedClass::LEAST),
        }
    }
}
