//! Every interleaving of small redistributions, and random ones of larger.
//!
//! A world of cores, the handlers they hold and run, and the messages under way; a step starts an event, ends one or delivers
//! a message. All reachable worlds are visited, and what must never be is looked for in each.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    cores: Vec<Custody>,
    running: Vec<Option<HandlerIndex>>,
    /// By sender, the monitor after the last core, and receiver: in order.
    under_way: BTreeMap<(u32, u32), VecDeque<Message>>,
}

/// What must never be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// A handler runs on two cores at once.
    RunsTwice,
    /// Two cores hold a handler.
    HeldTwice,
    /// No core holds a handler, and no message brings it to one.
    Lost,
    /// All messages have come, and a handler is not where it should be.
    Astray,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Start(usize, HandlerIndex),
    End(usize),
    Deliver(u32, u32),
}

impl World {
    fn new(placed: &Plan, cores: u32) -> Self {
        let mut world = Self {
            cores: (0..cores).map(|core| Custody::new(CoreIndex(core))).collect(),
            running: vec![None; cores as usize],
            under_way: BTreeMap::new(),
        };
        for (handler, _) in placed.iter() {
            let core = placed.core_of(handler).expect("placed on a core").0 as usize;
            assert_eq!(world.cores[core].receive(Message::Take(vec![handler])), []);
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

    fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<_> = self
            .under_way
            .keys()
            .copied()
            .collect::<Vec<_>>()
            .into_iter()
            .filter(|&(_, to)| self.running[to as usize].is_none())
            .map(|(from, to)| Step::Deliver(from, to))
            .collect();
        for (core, running) in self.running.iter().enumerate() {
            match running {
                Some(_) => steps.push(Step::End(core)),
                None => steps.extend(self.cores[core].held().map(|handler| Step::Start(core, handler))),
            }
        }
        steps
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Start(core, handler) => self.running[core] = Some(handler),
            Step::End(core) => self.running[core] = None,
            Step::Deliver(from, to) => {
                let queue = self.under_way.get_mut(&(from, to)).expect("a message is under way");
                let message = queue.pop_front().expect("queues are not empty");
                if queue.is_empty() {
                    self.under_way.remove(&(from, to));
                }
                self.receive(to, message);
            }
        }
    }

    fn receive(&mut self, at: u32, message: Message) {
        for effect in self.cores[at as usize].receive(message) {
            match effect {
                Effect::Send(envelope) => self.send(at, envelope),
                // Both cores are locked, whatever they run.
                Effect::Strip(donor, handlers) => {
                    let taken = self.cores[donor.0 as usize].strip(&handlers);
                    self.receive(at, Message::Take(taken));
                }
                Effect::Impose(receiver, handlers) => self.receive(receiver.0, Message::Take(handlers)),
            }
        }
    }

    fn faults(&self, handlers: u32, target: &Plan) -> Vec<Fault> {
        let mut faults = Vec::new();
        let brought = |handler: HandlerIndex| {
            let messages = self.under_way.values().flatten();
            messages
                .filter(|message| matches!(message, Message::Take(taken) if taken.contains(&handler)))
                .count()
        };
        for handler in (0..handlers).map(HandlerIndex) {
            let held = self.cores.iter().filter(|core| core.holds(handler)).count();
            let runs = self.running.iter().filter(|running| **running == Some(handler)).count();
            let home = target.core_of(handler).expect("placed on a core").0 as usize;
            faults.extend((runs > 1).then_some(Fault::RunsTwice));
            faults.extend((held + brought(handler) > 1).then_some(Fault::HeldTwice));
            faults.extend((held + brought(handler) == 0).then_some(Fault::Lost));
            faults.extend(
                (self.under_way.is_empty() && !self.cores[home].holds(handler)).then_some(Fault::Astray),
            );
        }
        faults
    }
}

/// All faults that any order of steps leads to, after these plans were sent one after the other; and the worlds visited.
fn explore(strategy: Redistribution, plans: &[&[u32]], cores: u32) -> (BTreeSet<Fault>, usize) {
    let plans: Vec<_> =
        plans.iter().map(|plan| Plan::on_cores(plan.iter().copied().map(CoreIndex))).collect();
    let mut world = World::new(&plans[0], cores);
    for pair in plans.windows(2) {
        world.monitor_sends(strategy, &pair[0], &pair[0].moves_to(&pair[1]));
    }
    let target = plans.last().expect("a plan");
    let (mut seen, mut open, mut faults) = (BTreeSet::from([world.clone()]), vec![world], BTreeSet::new());
    while let Some(world) = open.pop() {
        faults.extend(world.faults(target.len() as u32, target));
        for step in world.steps() {
            let mut next = world.clone();
            next.take(step);
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    (faults, seen.len())
}

const SWAP: &[&[u32]] = &[&[0, 1], &[1, 0]];
const CYCLE: &[&[u32]] = &[&[0, 1, 2, 0], &[1, 2, 0, 1]];
/// The second plan is sent before the first is in force; the third sends a handler back.
const HURRIED: &[&[u32]] = &[&[0, 1], &[1, 2], &[2, 0], &[0, 0]];

#[test]
fn broadcast_runs_handlers_twice_and_loses_them_for_a_while() {
    let (faults, _) = explore(Redistribution::Broadcast, SWAP, 2);
    assert_eq!(faults, [Fault::RunsTwice, Fault::HeldTwice, Fault::Lost].into());
}

#[test]
fn receivers_that_pull_run_what_still_runs_at_the_donor() {
    let (faults, _) = explore(Redistribution::ReceiverPulls, SWAP, 2);
    assert_eq!(faults, [Fault::RunsTwice].into());
    let (faults, _) = explore(Redistribution::ReceiverPulls, HURRIED, 3);
    assert_eq!(faults, [Fault::RunsTwice, Fault::Astray].into(), "a pull that comes too early is forgotten");
}

#[test]
fn donors_that_push_and_mixed_are_safe_in_every_order() {
    for strategy in [Redistribution::DonorPushes, Redistribution::Mixed] {
        for (plans, cores) in [(SWAP, 2), (CYCLE, 3), (HURRIED, 3)] {
            let (faults, worlds) = explore(strategy, plans, cores);
            println!("{strategy}: {worlds} worlds");
            assert_eq!(faults, BTreeSet::new(), "{strategy} {plans:?}");
            assert!(worlds > 10);
        }
    }
}

/// A check that finds nothing may look at nothing: the same exploration finds a planted fault.
#[test]
fn a_donor_that_forgets_to_let_go_is_found() {
    let mut world = World::new(&Plan::on_cores([CoreIndex(0)]), 2);
    world.cores[1].receive(Message::Take(vec![HandlerIndex(0)]));
    assert_eq!(world.faults(1, &Plan::on_cores([CoreIndex(1)])), [Fault::HeldTwice]);
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
    assert_eq!(messages[0].message, Message::Give(given));
    assert_eq!(messages[3].message, Message::Take(vec![HandlerIndex(9)]), "nobody held it before");
    assert_eq!(Redistribution::Mixed.messages(&placed, &[to(3, 1)], 4), []);
    assert_eq!(
        (Redistribution::default(), Redistribution::Mixed.to_string()),
        (Redistribution::Mixed, "mixed".to_owned())
    );
}

proptest! {
    /// Any plans, each sent at any time, in any order of steps: nothing is ever held twice or lost, and in the end all stand where
    /// the last plan wants them.
    #[test]
    fn mixed_is_safe_for_any_plans(
        plans in prop::collection::vec(prop::collection::vec(0u32..4, 5), 2..6),
        choices in prop::collection::vec(any::<u16>(), 400),
    ) {
        let plans: Vec<_> = plans.into_iter().map(|plan| Plan::on_cores(plan.into_iter().map(CoreIndex))).collect();
        let target = plans.last().expect("a plan");
        let mut world = World::new(&plans[0], 4);
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
            prop_assert!(faults.iter().all(|fault| *fault == Fault::Astray), "{:?}", faults);
        }
        // Whatever is left runs to its end.
        while !world.under_way.is_empty() {
            let quiet = |step: &&Step| !matches!(step, Step::Start(..));
            let steps = world.steps();
            world.take(*steps.iter().find(quiet).expect("what runs ends, what is sent arrives"));
        }
        if sent + 1 == plans.len() {
            prop_assert_eq!(world.faults(5, target), vec![]);
        }
    }
}
