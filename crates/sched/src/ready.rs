//! What waits for a core: colors in order of arrival, and among them those worth stealing, best first.
//!
//! Two orders behind one interface. [`Order::Colors`] is Mely's: a core-queue links the colors, a stealing-queue links
//! the worthy ones by class of worth; every step is O(1). Where handlers have
//! classes ([`crate::Class`]) there is a core-queue for each, and [`Shares`] says which is next. [`Order::Events`] is Libasync-SMP's: one entry per event in one
//! queue, and a thief that scans it from the front. Pure data: whoever shares a queue between threads locks it. A token
//! is whatever stands for the right to run a color; at most one of a color is here. Tested in `ready/tests.rs` against a
//! plain model.

mod colors;
mod events;
mod gather;
#[cfg(test)]
mod tests;

use crate::{Class, ClassIndex, Shares};
use colors::Colors;
use events::Events;
pub use gather::Gather;
use gather::Gathering;
use std::ops::ControlFlow;

/// What a core's queue holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// One entry per color: exclusion, moves and steals cost the same whatever is queued.
    #[default]
    Colors,
    /// One entry per event, in the order of posting on this core; a steal scans it.
    Events,
}

/// How much a color is worth to a thief: the power of two of its queued time. Higher is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorthClass(u8);

impl WorthClass {
    /// Classes told apart.
    pub const COUNT: usize = 8;

    /// The lowest class.
    pub const LEAST: Self = Self(0);

    /// Queued time of the lowest class, in nanoseconds: below a microsecond no move has ever paid.
    const LEAST_NS: u64 = 1 << 10;

    /// The class of a color with events of `worth_ns` nanoseconds queued, which a penalty may have lessened. Each
    /// class spans a factor of four; nothing below a microsecond has one.
    pub fn of(worth_ns: u64) -> Option<Self> {
        let times = worth_ns / Self::LEAST_NS;
        (times > 0).then(|| Self((times.ilog2() / 2).min(Self::COUNT as u32 - 1) as u8))
    }

    fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The place of a color in a [`Ready`] queue; stale as soon as the color leaves it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot(pub u32);

/// Colors of one kin are alike to a thief, if they are of one class too: one is judged for all. Whoever queues a color says what it
/// is like then ([`Ready::set_kin`]); what is posted to it later changes that for none but itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kin(pub u16);

/// What colors have in common that go together: [`Ready::steal_alike`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Like {
    class: WorthClass,
    kin: Kin,
}

impl Like {
    /// The kin.
    pub fn kin(self) -> Kin {
        self.kin
    }
}

/// What a thief takes.
#[derive(Debug, PartialEq, Eq)]
pub struct Stolen<T> {
    /// The token.
    pub token: T,
    /// Entries of the victim's queue that go with it; zero in order [`Order::Colors`], where events never move.
    pub entries: usize,
    /// What others are like that are as good, if it has kin.
    pub like: Option<Like>,
}

/// What waits for one core.
#[derive(Debug)]
pub struct Ready<T> {
    queue: Queue<T>,
    gathering: Gathering<T>,
}

#[derive(Debug)]
enum Queue<T> {
    Colors(Colors<T>),
    Events(Events<T>),
}

impl<T> Ready<T> {
    /// An empty queue of this order.
    pub fn new(order: Order) -> Self {
        Self::divided(order, &[])
    }

    /// An empty queue of this order whose core divides its time between the default class and these. An order of events
    /// divides nothing: they run in the order of posting.
    pub fn divided(order: Order, classes: &[Class]) -> Self {
        let queue = match order {
            Order::Colors => Queue::Colors(Colors::new((!classes.is_empty()).then(|| Shares::new(classes)))),
            Order::Events => Queue::Events(Events::default()),
        };
        Self { queue, gathering: Gathering::default() }
    }

    /// The place that the next color will have here, until it is put there: so that it can be noted with the color before its token
    /// has gone, which would have to be read again.
    pub fn next_slot(&mut self) -> Slot {
        match &mut self.queue {
            Queue::Colors(colors) => colors.next_slot(),
            Queue::Events(_) => Slot(u32::MAX),
        }
    }

    /// Puts the token of color `color` at the tail. `class`: what it is worth to a thief, `None` if it must stay. Gives
    /// the color's place here.
    pub fn push(&mut self, color: u64, token: T, class: Option<WorthClass>) -> Slot {
        self.push_in(color, token, class, ClassIndex::default(), 0)
    }

    /// As [`push`](Self::push), at the tail of its class `of`, where it waits since `now_ns`.
    pub fn push_in(
        &mut self,
        color: u64,
        token: T,
        class: Option<WorthClass>,
        of: ClassIndex,
        now_ns: u64,
    ) -> Slot {
        match &mut self.queue {
            Queue::Colors(colors) => colors.push(color, token, class, of, now_ns),
            Queue::Events(events) => {
                events.arrive(color, token, class.is_some());
                Slot(u32::MAX)
            }
        }
    }

    /// One more event of `color` has been posted here; its token may be here, on its way or running. For
    /// [`Order::Events`] only: elsewhere it does nothing.
    pub fn post(&mut self, color: u64, entries: usize) {
        if let Queue::Events(events) = &mut self.queue {
            events.post(color, entries);
        }
    }

    /// The color in `slot` has become more or less worth. Ignored when it has left.
    pub fn reclass(&mut self, slot: Slot, color: u64, class: Option<WorthClass>) {
        if let Queue::Colors(colors) = &mut self.queue {
            colors.reclass(slot, color, class);
        }
    }

    /// The color in `slot`, which has just been put there, is like all others of `kin`.
    pub fn set_kin(&mut self, slot: Slot, kin: Kin) {
        if let Queue::Colors(colors) = &mut self.queue {
            colors.set_kin(slot, kin);
        }
    }

    /// Takes what the owner runs next, where time is not divided; otherwise [`pop_at`](Self::pop_at).
    pub fn pop(&mut self) -> Option<T> {
        self.pop_at(0)
    }

    /// Takes what the owner runs next: the oldest of the class that is due.
    pub fn pop_at(&mut self, now_ns: u64) -> Option<T> {
        match &mut self.queue {
            Queue::Colors(colors) => colors.pop(now_ns),
            Queue::Events(events) => events.pop(),
        }
    }

    /// What was taken last by its owner has run for so long.
    pub fn charge(&mut self, ns: u64) {
        if let Queue::Colors(colors) = &mut self.queue {
            colors.charge(ns);
        }
    }

    /// I12: a class that has kept others waiting beyond its share, if one has.
    pub fn overdrawn(&self) -> Option<ClassIndex> {
        match &self.queue {
            Queue::Colors(colors) => colors.overdrawn(),
            Queue::Events(_) => None,
        }
    }

    /// Keeps the token of `color` until it is taken out by its name or is due: its events gather.
    pub fn gather(&mut self, color: u64, token: T, due_ns: u64) {
        self.gathering.push(color, token, due_ns);
    }

    /// Takes out the token of `color` if its events gather here.
    pub fn take_gathering(&mut self, color: u64) -> Option<T> {
        self.gathering.take(color)
    }

    /// Takes out a token whose events have gathered for as long as they may.
    pub fn take_gathered(&mut self, now_ns: u64) -> Option<T> {
        self.gathering.take_due(now_ns)
    }

    /// When the next of them is due.
    pub fn next_gathered_ns(&self) -> Option<u64> {
        self.gathering.next_ns()
    }

    /// Takes the best color that `fits`: the highest class first, the oldest first within a class. Looks at a bounded
    /// number of candidates in order [`Order::Colors`], and at whatever is queued in order [`Order::Events`].
    pub fn steal(&mut self, fits: impl FnMut(&T) -> bool) -> Option<Stolen<T>> {
        match &mut self.queue {
            Queue::Colors(colors) => colors.steal(fits),
            Queue::Events(events) => events.steal(fits),
        }
    }

    /// Takes the next colors that are like one that has just been stolen, until `take`, which gets them, breaks; without a look at what
    /// they stand for: that would be another line each from the victim's cache, under its lock.
    pub fn steal_alike(&mut self, like: Like, take: impl FnMut(T) -> ControlFlow<()>) {
        if let Queue::Colors(colors) = &mut self.queue {
            colors.steal_alike(like, take);
        }
    }

    /// Takes the token in `slot` if it is that of `color`, whatever it is worth: a placement wants it elsewhere.
    pub fn remove(&mut self, slot: Slot, color: u64) -> Option<Stolen<T>> {
        match &mut self.queue {
            Queue::Colors(colors) => {
                colors.remove(slot, color).map(|token| Stolen { token, entries: 0, like: None })
            }
            Queue::Events(events) => events.remove(color),
        }
    }

    /// Tokens here.
    pub fn len(&self) -> usize {
        match &self.queue {
            Queue::Colors(colors) => colors.len(),
            Queue::Events(events) => events.len(),
        }
    }

    /// Whether no token is here.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the owner may find something to do: a token without an entry, which is on its way, counts as none.
    pub fn has_work(&self) -> bool {
        match &self.queue {
            Queue::Colors(colors) => colors.len() > 0,
            Queue::Events(events) => events.has_work(),
        }
    }

    /// Takes out the entries whose tokens are elsewhere, when all tokens have been taken and the core goes away.
    pub fn leave(&mut self) -> Vec<u64> {
        match &mut self.queue {
            Queue::Colors(_) => Vec::new(),
            Queue::Events(events) => events.leave(),
        }
    }

    /// Tokens that a thief may take.
    pub fn stealable(&self) -> usize {
        match &self.queue {
            Queue::Colors(colors) => colors.stealable(),
            Queue::Events(events) => events.stealable(),
        }
    }

    /// The best class here.
    pub fn best(&self) -> Option<WorthClass> {
        match &self.queue {
            Queue::Colors(colors) => colors.best(),
            Queue::Events(events) => (events.stealable() > 0).then_some(WorthClass(0)),
        }
    }
}
