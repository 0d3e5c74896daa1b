//! The execution of moves: the messages between cores, and the core that holds a handler meanwhile.
//!
//! The machine is modelled as a distributed system. Cores hold handlers and exchange control
//! messages, which a core serves between two events. Four strategies, as in the publication
//! (Genevès, 2008), each a pure state machine:
//!
//! - Broadcast: the monitor tells every core, and each core changes its own state. Unsafe, because
//!   for a while a handler is on two cores or on none.
//! - Receiver pulls: the monitor tells the receiver, which takes the handler from the donor.
//!   Unsafe, because the handler may be running there.
//! - Donor pushes: the monitor tells the donor, which gives the handler to the receiver. Safe, but
//!   the donor writes the receiver's state.
//! - Mixed: the monitor tells the donor, and the donor releases the handler and tells the receiver.
//!   Safe, and each core writes only its own state.
//!
//! Messages are grouped: at most one for each pair of cores. Leaves out the transport, which keeps
//! the order of messages between two cores. `control/redistribute/tests.rs` explores all
//! interleavings and finds the two unsafe strategies unsafe. `docs/runtime.md` gives the cost of
//! each strategy, and a test compares the table.
//!
//! The runtime moves handlers as `Mixed` does, but does not wait for the end of an event. A core of
//! the runtime holds a handler while the handler's token is in the core's ready queue, which has a
//! lock for posters and thieves anyway. A running color is in no queue. So the sender of a message
//! executes the message in place of the receiver, at once, and the explorations cover that case
//! too. Waiting for the core would delay handlers behind a long event. Of 64 handlers behind an
//! event of 20 ms the last had run after 0.15 ms at once (median of 40). With a message served by
//! the donor that took 1 to 12 ms, at most 22 to 34. The sender spends 60 µs instead of 15; singly,
//! with a lock for each handler and core, 40 (two cores, not optimized fully, other load on the
//! machine).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::plan::{Move, Plan};
use crate::{CoreIndex, HandlerIndex};

#[cfg(test)]
mod tests;

/// The strategy that puts a new placement in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redistribution {
    /// The monitor tells every core all moves. Unsafe; for comparison.
    Broadcast,
    /// Receivers take handlers. Unsafe; for comparison.
    ReceiverPulls,
    /// Donors give handlers, and write the receiver's state.
    DonorPushes,
    /// Donors release handlers, and receivers take them.
    #[default]
    Mixed,
}

/// A message between cores. Each handler is listed with the other core concerned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoveMessage {
    /// To every core: drop the leaving handlers and hold the arriving handlers.
    Update(Vec<HandlerMove>),
    /// To a receiver: take these handlers from the cores that hold them.
    Pull(Vec<(HandlerIndex, CoreIndex)>),
    /// To a donor: give these handlers to the listed cores.
    Push(Vec<(HandlerIndex, CoreIndex)>),
    /// To a donor: release these handlers and tell the listed cores.
    Give(Vec<(HandlerIndex, CoreIndex)>),
    /// To a receiver: hold these handlers.
    Take(Vec<HandlerIndex>),
}

/// A move with its origin; no core holds a handler without an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HandlerMove {
    /// The handler that moves.
    pub handler: HandlerIndex,
    /// The origin.
    pub from: Option<CoreIndex>,
    /// The destination.
    pub to: CoreIndex,
}

/// A message to a core.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Envelope {
    /// The recipient.
    pub to: CoreIndex,
    /// The message.
    pub message: MoveMessage,
}

/// An action of a core after a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send this message.
    Send(Envelope),
    /// Take these handlers from that core with [`CoreHoldings::pull`], and give the result to this
    /// core with [`CoreHoldings::receive`] of a [`MoveMessage::Take`]. That needs a lock on both
    /// cores, and is still unsafe.
    Pull(CoreIndex, Vec<HandlerIndex>),
    /// Give these handlers to that core with [`CoreHoldings::receive`] of a [`MoveMessage::Take`].
    /// That needs a lock on the core.
    Push(CoreIndex, Vec<HandlerIndex>),
}

/// The handlers that a core holds and may run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CoreHoldings {
    core: CoreIndex,
    held: BTreeSet<HandlerIndex>,
    /// Handlers to pass on as soon as they arrive, oldest first: the order to give has overtaken
    /// the handler.
    owed: Vec<(HandlerIndex, CoreIndex)>,
}

impl Redistribution {
    /// The monitor's messages that turn `placed` into the placement that `moves` ask for: at most
    /// one message to each core.
    pub fn messages(self, placed: &Plan, moves: &[Move], cores: usize) -> Vec<Envelope> {
        let order = |step: &Move| HandlerMove {
            handler: step.handler,
            from: placed.core_of(step.handler),
            to: step.to,
        };
        let orders: Vec<_> = moves.iter().map(order).filter(|order| order.from != Some(order.to)).collect();
        match self {
            _ if orders.is_empty() => Vec::new(),
            Self::Broadcast => {
                let update =
                    |core| Envelope { to: CoreIndex(core), message: MoveMessage::Update(orders.clone()) };
                (0..cores as u32).map(update).collect()
            }
            Self::ReceiverPulls => {
                let pull = |order: &HandlerMove| Some((order.to, (order.handler, order.from?)));
                with_newcomers(&orders, grouped(orders.iter().filter_map(pull)), MoveMessage::Pull)
            }
            Self::DonorPushes => with_newcomers(&orders, given(&orders), MoveMessage::Push),
            Self::Mixed => with_newcomers(&orders, given(&orders), MoveMessage::Give),
        }
    }
}

type Grouped<T> = BTreeMap<CoreIndex, Vec<T>>;

fn grouped<T>(pairs: impl Iterator<Item = (CoreIndex, T)>) -> Grouped<T> {
    let mut groups = Grouped::new();
    pairs.for_each(|(core, item)| groups.entry(core).or_default().push(item));
    groups
}

/// By donor: the handlers to give, with their receivers.
fn given(orders: &[HandlerMove]) -> Grouped<(HandlerIndex, CoreIndex)> {
    grouped(orders.iter().filter_map(|order| Some((order.from?, (order.handler, order.to)))))
}

/// These messages, and messages to the receivers of handlers that no core holds.
fn with_newcomers<T>(
    orders: &[HandlerMove],
    groups: Grouped<T>,
    message: fn(Vec<T>) -> MoveMessage,
) -> Vec<Envelope> {
    let known = groups.into_iter().map(|(to, items)| Envelope { to, message: message(items) });
    let newcomers = orders.iter().filter(|order| order.from.is_none()).map(|order| (order.to, order.handler));
    let takes = grouped(newcomers)
        .into_iter()
        .map(|(to, handlers)| Envelope { to, message: MoveMessage::Take(handlers) });
    known.chain(takes).collect()
}

impl CoreHoldings {
    /// A core that holds no handler.
    pub fn new(core: CoreIndex) -> Self {
        Self { core, held: BTreeSet::new(), owed: Vec::new() }
    }

    /// Whether the core holds a handler, and so may run the handler's events.
    pub fn holds(&self, handler: HandlerIndex) -> bool {
        self.held.contains(&handler)
    }

    /// The handlers that the core holds.
    pub fn held(&self) -> impl Iterator<Item = HandlerIndex> {
        self.held.iter().copied()
    }

    /// Serves a message, between two events.
    pub fn receive(&mut self, message: MoveMessage) -> Vec<Effect> {
        match message {
            MoveMessage::Update(orders) => self.update(&orders),
            MoveMessage::Pull(handlers) => {
                grouped(handlers.into_iter().map(|(handler, from)| (from, handler)))
                    .into_iter()
                    .map(|(from, handlers)| Effect::Pull(from, handlers))
                    .collect()
            }
            MoveMessage::Push(handlers) => {
                self.release(handlers).into_iter().map(|(to, handlers)| Effect::Push(to, handlers)).collect()
            }
            MoveMessage::Give(handlers) => self.release(handlers).into_iter().map(hand_over).collect(),
            MoveMessage::Take(handlers) => self.take(handlers).into_iter().map(hand_over).collect(),
        }
    }

    /// Another core takes these handlers away, under a lock. Returns the handlers that were there.
    pub fn pull(&mut self, handlers: &[HandlerIndex]) -> Vec<HandlerIndex> {
        handlers.iter().copied().filter(|handler| self.held.remove(handler)).collect()
    }

    fn update(&mut self, orders: &[HandlerMove]) -> Vec<Effect> {
        for order in orders {
            if order.to == self.core {
                self.held.insert(order.handler);
            } else {
                self.held.remove(&order.handler);
            }
        }
        Vec::new()
    }

    /// Releases the handlers that are there, and records the handlers still to come.
    fn release(&mut self, handlers: Vec<(HandlerIndex, CoreIndex)>) -> Grouped<HandlerIndex> {
        let (here, coming): (Vec<_>, Vec<_>) =
            handlers.into_iter().partition(|(handler, _)| self.held.remove(handler));
        self.owed.extend(coming);
        grouped(here.into_iter().map(|(handler, to)| (to, handler)))
    }

    /// Holds these handlers, except handlers owed to other cores.
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
    Effect::Send(Envelope { to, message: MoveMessage::Take(handlers) })
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
