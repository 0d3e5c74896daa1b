//! Every interleaving of small redistributions, and random interleavings of larger ones.
//!
//! A world has cores, the handlers that the cores hold and run, and the messages under way. A step
//! starts an event, ends an event or delivers a message. The exploration visits all reachable
//! worlds and checks each for faults. Cores serve messages at the end of an event, as published, or
//! at any time, as the runtime does, where a running handler is not held.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;

/// When a core serves a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ServedAt {
    /// Between two events. The core holds the running handler.
    BetweenEvents,
    /// At any time. The core has released the running handler, like a token taken out of a queue,
    /// and holds the handler again at the end.
    AtOnce,
    /// At any time, while the core holds the running handler: a planted fault.
    Carelessly,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RedistributeWorld {
    served: ServedAt,
    cores: Vec<CoreHoldings>,
    running: Vec<Option<HandlerIndex>>,
    /// By sender (the monitor is after the last core) and receiver: in order.
    under_way: BTreeMap<(u32, u32), VecDeque<MoveMessage>>,
}

/// A forbidden state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ForbiddenState {
    /// A handler runs on two cores at once.
    RunsTwice,
    /// Two cores hold a handler.
    HeldTwice,
    /// No core holds a handler, and no message brings the handler to a core.
    Lost,
    /// All messages have arrived, and a handler is on the wrong core.
    Astray,
}

#[derive(Clone, Copy, Debug)]
enum WorldStep {
    Start(usize, HandlerIndex),
    End(usize),
    Deliver(u32, u32),
}

impl RedistributeWorld {
    fn new(placed: &Plan, cores: u32) -> Self {
        let mut world = Self {
            served: ServedAt::BetweenEvents,
            cores: (0..cores).map(|core| CoreHoldings::new(CoreIndex(core))).collect(),
            running: vec![None; cores as usize],
            under_way: BTreeMap::new(),
        };
        for (handler, _) in placed.iter() {
            let core = placed.core_of(handler).expect("placed on a core").0 as usize;
            assert_eq!(world.cores[core].receive(MoveMessage::Take(vec![handler])), []);
        }
        world
    }

    fn send(&mut self, from: u32, envelope: Envelope) {
        self.under_way.entry((from, envelope.to.0)).or_default().push_back(envelope.message);
    }

    fn monitor_sends(&mut self, strategy: Redistribution, placed: &Plan, moves: &[Move]) {
        let cores = self.cores.len();
        for envelope in strategy.messages(placed, moves, cores) {
            self.send(cores as u32, envelope);
        }
    }

    fn steps(&self) -> Vec<WorldStep> {
        let mut steps: Vec<_> = self
            .under_way
            .keys()
            .copied()
            .collect::<Vec<_>>()
            .into_iter()
            .filter(|&(_, to)| self.served != ServedAt::BetweenEvents || self.running[to as usize].is_none())
            .map(|(from, to)| WorldStep::Deliver(from, to))
            .collect();
        for (core, running) in self.running.iter().enumerate() {
            match running {
                Some(_) => steps.push(WorldStep::End(core)),
                None => steps.extend(self.cores[core].held().map(|handler| WorldStep::Start(core, handler))),
            }
        }
        steps
    }

    fn take(&mut self, step: WorldStep) {
        match step {
            WorldStep::Start(core, handler) => {
                self.running[core] = Some(handler);
                if self.served == ServedAt::AtOnce {
                    assert_eq!(self.cores[core].pull(&[handler]), [handler]);
                }
            }
            WorldStep::End(core) => {
                let ran = self.running[core].take().expect("something runs");
                if self.served == ServedAt::AtOnce {
                    self.receive(core as u32, MoveMessage::Take(vec![ran]));
                }
            }
            WorldStep::Deliver(from, to) => {
                let queue = self.under_way.get_mut(&(from, to)).expect("a message is under way");
                let message = queue.pop_front().expect("queues are not empty");
                if queue.is_empty() {
                    self.under_way.remove(&(from, to));
                }
                self.receive(to, message);
            }
        }
    }

    fn receive(&mut self, at: u32, message: MoveMessage) {
        for effect in self.cores[at as usize].receive(message) {
            match effect {
                Effect::Send(envelope) => self.send(at, envelope),
                // Both cores are locked, regardless of running events.
                Effect::Pull(donor, handlers) => {
                    let taken = self.cores[donor.0 as usize].pull(&handlers);
                    self.receive(at, MoveMessage::Take(taken));
                }
                Effect::Push(receiver, handlers) => self.receive(receiver.0, MoveMessage::Take(handlers)),
            }
        }
    }

    fn faults(&self, handlers: u32, target: &Plan) -> Vec<ForbiddenState> {
        let mut faults = Vec::new();
        let brought = |handler: HandlerIndex| {
            let messages = self.under_way.values().flatten();
            messages
                .filter(|message| matches!(message, MoveMessage::Take(taken) if taken.contains(&handler)))
                .count()
        };
        for handler in (0..handlers).map(HandlerIndex) {
            let runs = self.running.iter().filter(|running| **running == Some(handler)).count();
            let held = self.cores.iter().filter(|core| core.holds(handler)).count();
            let held = if self.served == ServedAt::AtOnce { held + runs } else { held };
            let home = target.core_of(handler).expect("placed on a core").0 as usize;
            // The handler leaves when its event ends.
            let leaves = self.served == ServedAt::AtOnce && runs > 0;
            faults.extend((runs > 1).then_some(ForbiddenState::RunsTwice));
            faults.extend((held + brought(handler) > 1).then_some(ForbiddenState::HeldTwice));
            faults.extend((held + brought(handler) == 0).then_some(ForbiddenState::Lost));
            faults.extend(
                (self.under_way.is_empty() && !self.cores[home].holds(handler) && !leaves)
                    .then_some(ForbiddenState::Astray),
            );
        }
        faults
    }
}

/// The result of an exploration of all orders of steps.
struct Explored {
    /// Number of worlds with each fault.
    faults: BTreeMap<ForbiddenState, usize>,
    worlds: usize,
}

impl Explored {
    fn faults(self) -> BTreeSet<ForbiddenState> {
        self.faults.into_keys().collect()
    }
}

/// All worlds reachable by any order of steps, after these plans were sent one after the other.
fn explore(strategy: Redistribution, served: ServedAt, plans: &[&[u32]], cores: u32) -> Explored {
    let plans: Vec<_> =
        plans.iter().map(|plan| Plan::on_cores(plan.iter().copied().map(CoreIndex))).collect();
    let mut world = RedistributeWorld { served, ..RedistributeWorld::new(&plans[0], cores) };
    for pair in plans.windows(2) {
        world.monitor_sends(strategy, &pair[0], &pair[0].moves_to(&pair[1]));
    }
    let target = plans.last().expect("a plan");
    let (mut seen, mut open, mut faults) = (BTreeSet::from([world.clone()]), vec![world], BTreeMap::new());
    while let Some(world) = open.pop() {
        for fault in world.faults(target.len() as u32, target).into_iter().collect::<BTreeSet<_>>() {
            *faults.entry(fault).or_default() += 1;
        }
        for step in world.steps() {
            let mut next = world.clone();
            next.take(step);
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    Explored { faults, worlds: seen.len() }
}

const SWAP: &[&[u32]] = &[&[0, 1], &[1, 0]];
const CYCLE: &[&[u32]] = &[&[0, 1, 2, 0], &[1, 2, 0, 1]];
/// The second plan is sent before the first is in force; the third sends a handler back.
const HURRIED: &[&[u32]] = &[&[0, 1], &[1, 2], &[2, 0], &[0, 0]];

#[test]
fn broadcast_runs_handlers_twice_and_loses_them_for_a_while() {
    let faults = explore(Redistribution::Broadcast, ServedAt::BetweenEvents, SWAP, 2).faults();
    assert_eq!(faults, [ForbiddenState::RunsTwice, ForbiddenState::HeldTwice, ForbiddenState::Lost].into());
}

#[test]
fn model_finds_pulling_receivers_unsafe() {
    let faults = explore(Redistribution::ReceiverPulls, ServedAt::BetweenEvents, SWAP, 2).faults();
    assert_eq!(faults, [ForbiddenState::RunsTwice].into());
    let faults = explore(Redistribution::ReceiverPulls, ServedAt::BetweenEvents, HURRIED, 3).faults();
    assert_eq!(
        faults,
        [ForbiddenState::RunsTwice, ForbiddenState::Astray].into(),
        "a pull that comes too early is forgotten"
    );
}

#[test]
fn donors_that_push_and_mixed_are_safe_in_every_order() {
    for strategy in [Redistribution::DonorPushes, Redistribution::Mixed] {
        for (plans, cores) in [(SWAP, 2), (CYCLE, 3), (HURRIED, 3)] {
            for served in [ServedAt::BetweenEvents, ServedAt::AtOnce] {
                let Explored { faults, worlds } = explore(strategy, served, plans, cores);
                println!("{strategy}, {served:?}: {worlds} worlds");
                assert_eq!(faults, BTreeMap::new(), "{strategy} {served:?} {plans:?}");
                assert!(worlds > 10);
            }
        }
    }
}

/// Not waiting for the end of an event is safe, because no core that a message reaches holds the
/// running handler.
#[test]
fn model_finds_immediate_delivery_to_running_colors_unsafe() {
    for strategy in [Redistribution::DonorPushes, Redistribution::Mixed] {
        let faults = explore(strategy, ServedAt::Carelessly, SWAP, 2).faults();
        assert_eq!(faults, [ForbiddenState::RunsTwice].into(), "{strategy}");
    }
}

/// Messages of all cores and the monitor, and accesses to another core's state, until a plan is in
/// force.
fn cost(strategy: Redistribution, from: &Plan, to: &Plan, cores: u32) -> (usize, usize) {
    let mut world = RedistributeWorld::new(from, cores);
    let (mut messages, mut reaches) = (0, 0);
    world.monitor_sends(strategy, from, &from.moves_to(to));
    while let Some((&(from, to), _)) = world.under_way.iter().next() {
        messages += 1;
        let mut before = world.clone();
        let message =
            before.under_way.get_mut(&(from, to)).and_then(VecDeque::pop_front).expect("one is under way");
        let effects = before.cores[to as usize].receive(message);
        reaches += effects.iter().filter(|effect| !matches!(effect, Effect::Send(_))).count();
        world.take(WorldStep::Deliver(from, to));
    }
    assert!((0..to.len() as u32).all(|handler| {
        let handler = HandlerIndex(handler);
        world.cores[to.core_of(handler).expect("on a core").0 as usize].holds(handler)
    }));
    (messages, reaches)
}

/// The table in docs/runtime.md: cost of the strategies from round robin to cache-aware for 16
/// handlers on four cores, and the number of faulty worlds among all worlds that a cycle of three
/// cores reaches.
#[test]
fn the_strategies_are_compared_in_the_documentation() {
    let round_robin = Plan::on_cores((0..16).map(|handler| CoreIndex(handler % 4)));
    let cache_aware = Plan::on_cores((0..16).map(|handler| CoreIndex(handler / 4)));
    let strategies = [
        Redistribution::Broadcast,
        Redistribution::ReceiverPulls,
        Redistribution::DonorPushes,
        Redistribution::Mixed,
    ];
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/runtime.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    for strategy in strategies {
        let (messages, reaches) = cost(strategy, &round_robin, &cache_aware, 4);
        let Explored { faults, worlds } = explore(strategy, ServedAt::BetweenEvents, CYCLE, 3);
        let [runs, held, lost] = [ForbiddenState::RunsTwice, ForbiddenState::HeldTwice, ForbiddenState::Lost]
            .map(|fault| faults.get(&fault).copied().unwrap_or(0));
        let row = format!("| {strategy} | {messages} | {reaches} | {worlds} | {runs} | {held} | {lost} |");
        assert!(page.contains(&row), "docs/runtime.md needs the line\n{row}");
    }
}

/// A check that finds nothing may check nothing: the same exploration finds a planted fault.
#[test]
fn model_finds_a_donor_that_keeps_its_color() {
    let mut world = RedistributeWorld::new(&Plan::on_cores([CoreIndex(0)]), 2);
    world.cores[1].receive(MoveMessage::Take(vec![HandlerIndex(0)]));
    assert_eq!(world.faults(1, &Plan::on_cores([CoreIndex(1)])), [ForbiddenState::HeldTwice]);
}

#[test]
fn messages_are_grouped() {
    let placed = Plan::on_cores([0, 0, 1, 1, 2].map(CoreIndex));
    let to = |handler, to| Move { handler: HandlerIndex(handler), to: CoreIndex(to) };
    let moves = [to(0, 1), to(1, 2), to(2, 2), to(3, 1), to(4, 1), to(9, 3)];
    let receivers = |strategy: Redistribution| {
        let messages = strategy.messages(&placed, &moves, 4);
        messages.iter().map(|envelope| envelope.to.0).collect::<Vec<_>>()
    };
    assert_eq!(receivers(Redistribution::Broadcast), [0, 1, 2, 3]);
    assert_eq!(receivers(Redistribution::ReceiverPulls), [1, 2, 3]);
    assert_eq!(receivers(Redistribution::DonorPushes), [0, 1, 2, 3]);
    assert_eq!(receivers(Redistribution::Mixed), [0, 1, 2, 3]);
    let messages = Redistribution::Mixed.messages(&placed, &moves, 4);
    let given = vec![(HandlerIndex(0), CoreIndex(1)), (HandlerIndex(1), CoreIndex(2))];
    assert_eq!(messages[0].message, MoveMessage::Give(given));
    assert_eq!(messages[3].message, MoveMessage::Take(vec![HandlerIndex(9)]), "nobody held it before");
    assert_eq!(Redistribution::Mixed.messages(&placed, &[to(3, 1)], 4), []);
    assert_eq!(
        (Redistribution::default(), Redistribution::Mixed.to_string()),
        (Redistribution::Mixed, "mixed".to_owned())
    );
}

proptest! {
    /// Any plans, each sent at any time, in any order of steps: no handler is ever held twice or
    /// lost, and in the end all handlers are where the last plan places them.
    #[test]
    fn mixed_is_safe_for_any_plans(
        plans in prop::collection::vec(prop::collection::vec(0u32..4, 5), 2..6),
        choices in prop::collection::vec(any::<u16>(), 400),
    ) {
        let plans: Vec<_> = plans.into_iter().map(|plan| Plan::on_cores(plan.into_iter().map(CoreIndex))).collect();
        let target = plans.last().expect("a plan");
        let mut world = RedistributeWorld::new(&plans[0], 4);
        let mut sent = 0;
        for choice in choices {
            if sent + 1 < plans.len() && choice % 5 == 0 {
                world.monitor_sends(Redistribution::Mixed, &plans[sent], &plans[sent].moves_to(&plans[sent + 1]));
                sent += 1;
                continue;
            }
            let steps = world.steps();
            world.take(steps[usize::from(choice) % steps.len()]);
            let faults = world.faults(5, target);
            prop_assert!(faults.iter().all(|fault| *fault == ForbiddenState::Astray), "{:?}", faults);
        }
        // All remaining messages and events are processed.
        while !world.under_way.is_empty() {
            let quiet = |step: &&WorldStep| !matches!(step, WorldStep::Start(..));
            let steps = world.steps();
            world.take(*steps.iter().find(quiet).expect("what runs ends, what is sent arrives"));
        }
        if sent + 1 == plans.len() {
            prop_assert_eq!(world.faults(5, target), vec![]);
        }
    }
}
