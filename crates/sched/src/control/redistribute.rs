//! How moves are carried out: who tells whom, and who holds a handler meanwhile.
//!
//! The machine is taken as a distributed system: cores hold handlers and talk by control messages, which a core serves between two
//! events. Four strategies, as in the publication (Genevès, 2008), each a pure state machine:
//!
//! | strategy | messages | safe |
//! | --- | --- | --- |
//! | broadcast | the monitor tells every core; each changes its own state | no: on two cores or on none, for a while |
//! | receiver pulls | the monitor tells the receiver, which takes the handler out of the donor's hands | no: it may be running there |
//! | donor pushes | the monitor tells the donor, which puts the handler into the receiver's hands | yes, but writes another's state |
//! | mixed | the monitor tells the donor, the donor lets go and tells the receiver | yes, and each writes its own state only |
//!
//! Messages are grouped: one for each pair of cores at most. Leaves out the transport, which keeps the order of messages
//! between two cores. All interleavings are explored in `control/redistribute/tests.rs`, where the unsafe two are found
//! unsafe; what each costs stands in `docs/runtime.md`, and a test compares.
//!
//! The runtime moves as `Mixed` does, but for the wait until an event ends: there a core holds a handler while its token stands in
//! the core's ready queue, which has a lock that posters and thieves take anyway, and what runs is in no queue. So whoever sends
//! a message carries it out in the receiver's place, at once, and the explorations cover that too. Waiting for the
//! core would keep what stands behind a long event there: of 64 handlers behind one of 20 ms the last had run after 0.15 ms at
//! once (median of 40), and after 1 to 12 ms with a message served by the donor, at most 22 to 34. The sender spends 60 µs instead of
//! 15; one by one, with a lock for each handler and core, 40 (two cores, not optimized fully, others at work).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::plan::{Move, Plan};
use crate::{CoreIndex, HandlerIndex};

#[cfg(test)]
mod tests;

/// How a new placement is put in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redistribution {
    /// Every core is told everything. Unsafe; to compare.
    Broadcast,
    /// Receivers take. Unsafe; to compare.
    ReceiverPulls,
    /// Donors give, and write the receiver's state.
    DonorPushes,
    /// Donors give, receivers take.
    #[default]
    Mixed,
}

/// What cores tell each other. Handlers come with the other core that is concerned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Message {
    /// To every core: drop what leaves you and hold what comes to you.
    Update(Vec<Order>),
    /// To a receiver: take these from the cores that hold them.
    Pull(Vec<(HandlerIndex, CoreIndex)>),
    /// To a donor: put these into the hands of those cores.
    Push(Vec<(HandlerIndex, CoreIndex)>),
    /// To a donor: let go of these and tell those cores.
    Give(Vec<(HandlerIndex, CoreIndex)>),
    /// To a receiver: these are yours.
    Take(Vec<HandlerIndex>),
}

/// A move with its beginning; nobody holds a handler that comes from nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order {
    /// Who goes.
    pub handler: HandlerIndex,
    /// Where from.
    pub from: Option<CoreIndex>,
    /// Where to.
    pub to: CoreIndex,
}

/// A message to a core.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Envelope {
    /// To whom.
    pub to: CoreIndex,
    /// What.
    pub message: Message,
}

/// What a core must do after a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send this.
    Send(Envelope),
    /// Take these out of that core's hands, with [`Custody::strip`], and put what it held into this core's, with
    /// [`Custody::receive`] of a [`Message::Take`]. That needs a lock on both, and is still unsafe.
    Strip(CoreIndex, Vec<HandlerIndex>),
    /// Put these into that core's hands, with [`Custody::receive`] of a [`Message::Take`]. That needs a lock on it.
    Impose(CoreIndex, Vec<HandlerIndex>),
}

/// The handlers that one core holds and may run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Custody {
    core: CoreIndex,
    held: BTreeSet<HandlerIndex>,
    /// To be given on as soon as they come, oldest first: the order to give has overtaken the handler.
    owed: Vec<(HandlerIndex, CoreIndex)>,
}

impl Redistribution {
    /// What the monitor sends so that `placed` becomes what `moves` ask for: at most one message to each core.
    pub fn messages(self, placed: &Plan, moves: &[Move], cores: usize) -> Vec<Envelope> {
        let order =
            |step: &Move| Order { handler: step.handler, from: placed.core_of(step.handler), to: step.to };
        let orders: Vec<_> = moves.iter().map(order).filter(|order| order.from != Some(order.to)).collect();
        match self {
            _ if orders.is_empty() => Vec::new(),
            Self::Broadcast => {
                let update =
                    |core| Envelope { to: CoreIndex(core), message: Message::Update(orders.clone()) };
                (0..cores as u32).map(update).collect()
            }
            Self::ReceiverPulls => {
                let pull = |order: &Order| Some((order.to, (order.handler, order.from?)));
                with_newcomers(&orders, grouped(orders.iter().filter_map(pull)), Message::Pull)
            }
            Self::DonorPushes => with_newcomers(&orders, given(&orders), Message::Push),
            Self::Mixed => with_newcomers(&orders, given(&orders), Message::Give),
        }
    }
}

type Grouped<T> = BTreeMap<CoreIndex, Vec<T>>;

fn grouped<T>(pairs: impl Iterator<Item = (CoreIndex, T)>) -> Grouped<T> {
    let mut groups = Grouped::new();
    pairs.for_each(|(core, item)| groups.entry(core).or_default().push(item));
    groups
}

/// By donor, what it gives and to whom.
fn given(orders: &[Order]) -> Grouped<(HandlerIndex, CoreIndex)> {
    grouped(orders.iter().filter_map(|order| Some((order.from?, (order.handler, order.to)))))
}

/// These messages, and to the receivers of handlers that nobody holds, that they take them.
fn with_newcomers<T>(orders: &[Order], groups: Grouped<T>, message: fn(Vec<T>) -> Message) -> Vec<Envelope> {
    let known = groups.into_iter().map(|(to, items)| Envelope { to, message: message(items) });
    let newcomers = orders.iter().filter(|order| order.from.is_none()).map(|order| (order.to, order.handler));
    let takes = grouped(newcomers)
        .into_iter()
        .map(|(to, handlers)| Envelope { to, message: Message::Take(handlers) });
    known.chain(takes).collect()
}

impl Custody {
    /// A core that holds nothing.
    pub fn new(core: CoreIndex) -> Self {
        Self { core, held: BTreeSet::new(), owed: Vec::new() }
    }

    /// Whether it holds a handler, and so may run its events.
    pub fn holds(&self, handler: HandlerIndex) -> bool {
        self.held.contains(&handler)
    }

    /// What it holds.
    pub fn held(&self) -> impl Iterator<Item = HandlerIndex> {
        self.held.iter().copied()
    }

    /// A message, between two events.
    pub fn receive(&mut self, message: Message) -> Vec<Effect> {
        match message {
            Message::Update(orders) => self.update(&orders),
            Message::Pull(handlers) => grouped(handlers.into_iter().map(|(handler, from)| (from, handler)))
                .into_iter()
                .map(|(from, handlers)| Effect::Strip(from, handlers))
                .collect(),
            Message::Push(handlers) => {
                self.let_go(handlers).into_iter().map(|(to, handlers)| Effect::Impose(to, handlers)).collect()
            }
            Message::Give(handlers) => self.let_go(handlers).into_iter().map(hand_over).collect(),
            Message::Take(handlers) => self.take(handlers).into_iter().map(hand_over).collect(),
        }
    }

    /// Another core takes these away, under a lock; which of them were there.
    pub fn strip(&mut self, handlers: &[HandlerIndex]) -> Vec<HandlerIndex> {
        handlers.iter().copied().filter(|handler| self.held.remove(handler)).collect()
    }

    fn update(&mut self, orders: &[Order]) -> Vec<Effect> {
        for order in orders {
            if order.to == self.core {
                self.held.insert(order.handler);
            } else {
                self.held.remove(&order.handler);
            }
        }
        Vec::new()
    }

    /// Lets go of what is there, and notes what is still to come.
    fn let_go(&mut self, handlers: Vec<(HandlerIndex, CoreIndex)>) -> Grouped<HandlerIndex> {
        let (here, coming): (Vec<_>, Vec<_>) =
            handlers.into_iter().partition(|(handler, _)| self.held.remove(handler));
        self.owed.extend(coming);
        grouped(here.into_iter().map(|(handler, to)| (to, handler)))
    }

    /// Holds these, but for what is owed to others.
    fn take(&mut self, handlers: Vec<HandlerIndex>) -> Grouped<HandlerIndex> {
        let mut onward = Grouped::new();
        for handler in handlers {
            match self.owed.iter().position(|&(owed, _)| owed == handler) {
                Some(at) => onward.entry(self.owed.remove(at).1).or_insert_with(Vec::new).push(handler),
                None => {
                    self.held.insert(handler);
                }
            }
        }
        onward
    }
}

fn hand_over((to, handlers): (CoreIndex, Vec<HandlerIndex>)) -> Effect {
    Effect::Send(Envelope { to, message: Message::Take(handlers) })
}

impl fmt::Display for Redistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Broadcast => "broadcast",
            Self::ReceiverPulls => "receiver-pulls",
            Self::DonorPushes => "donor-pushes",
            Self::Mixed => "mixed",
        })
    }
}
